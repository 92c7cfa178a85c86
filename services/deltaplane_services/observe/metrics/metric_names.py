"""Every metric of Deltaplane, named once: its kind, what it counts or measures, and its labels.

Names follow the conventions of Prometheus: base units at the end, ``_total`` for what only grows, times as seconds
since the epoch. Besides the labels given here all have ``stream``. Labels are bounded: outcomes, reasons and
verdicts come from closed sets (``label_values``), classes and features are capped, sources are as many as the stream
has.

Who exports what, so that a sum over processes counts nothing twice: the elected merger what is known of the whole
stream (``STREAM``), a worker what is known of the partitions it works on, a scorer its queries, and each what it did
itself. What a stream's counters count lies in the log, so they go on where they were when a merger is restarted.
"""

from __future__ import annotations

from deltaplane_services.observe.metrics.metric import BYTES, SECONDS, Metric

# Of the whole stream: exported by the elected merger, from the models on the models topic. ---------------------------

CONFUSION = Metric(
    "deltaplane_confusion_samples_total",
    "counter",
    "Samples scored before they were learned, by true and predicted class.",
    ("truth", "predicted"),
)
GMEAN = Metric(
    "deltaplane_gmean_ratio",
    "gauge",
    "Geometric mean of the recalls of the classes, before learning; no series while it is undefined.",
    ("span",),
)
OBJECTIVE = Metric(
    "deltaplane_objective_value",
    "gauge",
    "The figure that is asked for, before learning, by what was asked: the kappa, the recall, the cost of a row; no"
    " series while it is undefined.",
    ("objective", "span"),
)
OBJECTIVE_UNMET = Metric(
    "deltaplane_objective_unmet",
    "gauge",
    "1 while no threshold is within the bound of what is asked for, and the nearest one is used, else 0.",
    ("objective",),
)
ACCURACY = Metric("deltaplane_accuracy_ratio", "gauge", "Share of samples that were predicted right.", ("span",))
SENSITIVITY = Metric(
    "deltaplane_sensitivity_ratio",
    "gauge",
    "Share of the samples of a class that were predicted as it: its recall; no series while none was scored.",
    ("class", "span"),
)
SPECIFICITY = Metric(
    "deltaplane_specificity_ratio",
    "gauge",
    "Share of the samples of all other classes that were not predicted as this one; no series while undefined.",
    ("class", "span"),
)
PRECISION = Metric(
    "deltaplane_precision_ratio",
    "gauge",
    "Share of the samples predicted as a class that are of it; no series while none was.",
    ("class", "span"),
)
FALSE_ALARMS = Metric(
    "deltaplane_false_alarms_ratio",
    "gauge",
    "Share of all samples that were predicted as a class and are not of it.",
    ("class", "span"),
)
KAPPA = Metric(
    "deltaplane_kappa_ratio",
    "gauge",
    "Cohen's kappa: agreement beyond that of chance; with a positive class, of it against the rest; no series while"
    " undefined.",
    ("span",),
)
MATTHEWS = Metric(
    "deltaplane_matthews_correlation_ratio",
    "gauge",
    "Matthews correlation of truth and prediction; no series while undefined.",
    ("span",),
)
F_MEASURE = Metric(
    "deltaplane_f_measure_ratio",
    "gauge",
    "Harmonic mean of a class's recall and precision; no series while undefined.",
    ("class", "span"),
)
RELATIVE_SENSITIVITY = Metric(
    "deltaplane_relative_sensitivity_ratio",
    "gauge",
    "Sensitivity over specificity of a class, 1 without bias to a side; no series while undefined.",
    ("class", "span"),
)
PREQUENTIAL_SPAN = Metric(
    "deltaplane_prequential_window_samples",
    "gauge",
    "Scored samples that span recent is to look back on.",
)
PREQUENTIAL_ROWS = Metric(
    "deltaplane_prequential_samples",
    "gauge",
    "Scored samples that a span does look back on; recent starts with none where a merger takes over a long stream.",
    ("span",),
)
WINDOW_SAMPLES = Metric("deltaplane_window_samples", "gauge", "Live samples of the window, by class.", ("class",))
IMBALANCE = Metric(
    "deltaplane_window_imbalance_ratio",
    "gauge",
    "Live samples of the largest class over those of the smallest; no series with fewer than two live classes.",
)
MODEL_VERSION = Metric("deltaplane_model_version", "gauge", "Version of the newest model.")
PLANE_VERSION = Metric(
    "deltaplane_model_plane_version",
    "gauge",
    "Version that first had the newest model's plane; less than the model's while solving is refused, 0 without one.",
)
MODEL_CREATED = Metric(
    "deltaplane_model_created_timestamp_seconds",
    "gauge",
    "When the newest model was made; its age is time() minus this.",
)
WATERMARK = Metric(
    "deltaplane_model_watermark_timestamp_seconds", "gauge", "Largest event time that the newest model contains."
)
MODEL_REFUSED = Metric(
    "deltaplane_model_refused",
    "gauge",
    "1 while the newest statistics determine no plane and the last good one is kept, else 0.",
)
MODEL_C = Metric("deltaplane_model_c", "gauge", "Regularisation parameter C of the newest plane.")
CONDITION = Metric(
    "deltaplane_model_condition_number", "gauge", "Largest estimated condition number of the matrices solved."
)
BLEND_SHARE = Metric(
    "deltaplane_model_blend_share_ratio",
    "gauge",
    "Share in the plane of the automatic mode that the candidates of one window, one C, one weighting or one cut have.",
    ("of", "choice"),
)
SIGMA = Metric("deltaplane_model_sigma", "gauge", "Weight of a class as the positive side of its plane.", ("class",))
WEIGHT = Metric(
    "deltaplane_model_weight",
    "gauge",
    "Weight of a feature in the plane of a class, in raw units; the first features only.",
    ("class", "feature"),
)
STANDARDIZED_WEIGHT = Metric(
    "deltaplane_model_standardized_weight",
    "gauge",
    "Weight of a feature in the plane of a class times the deviation of the feature over the live samples, so that"
    " features can be compared; the first features only, and only of a merger that has made a model.",
    ("class", "feature"),
)
WEIGHT_NORM = Metric("deltaplane_model_weight_norm", "gauge", "Euclidean norm of all weights of the newest plane.")
WEIGHT_CHANGE = Metric(
    "deltaplane_model_weight_change_norm",
    "gauge",
    "Euclidean norm of the difference between the weights of the newest plane and the one before it.",
)
SAMPLES = Metric(
    "deltaplane_samples_total", "counter", "Samples admitted, each under the one outcome that it had.", ("outcome",)
)
RETIREMENTS = Metric("deltaplane_retirements_total", "counter", "Retirements answered, by outcome.", ("outcome",))
RETIREMENTS_WAITING = Metric(
    "deltaplane_retirements_waiting",
    "gauge",
    "Retirements that were answered waiting, less those that a sample met or a removed source took along. At most so"
    " many wait: of a row that has left memory, or was not read again after a crash, nobody knows that it came.",
)
RETIREMENTS_FORGOTTEN = Metric(
    "deltaplane_retirements_forgotten_total", "counter", "Oldest retired ids let go of at the limit of memory."
)
REMOVED = Metric("deltaplane_window_removed_samples_total", "counter", "Samples that left the window.", ("reason",))
REJECTED = Metric(
    "deltaplane_rejected_total", "counter", "Samples and retirements that became dead letters at a worker.", ("reason",)
)
MISPLACED = Metric(
    "deltaplane_misplaced_total",
    "counter",
    "Samples and retirements taken in although they lie in another partition than their id's: only where the definition"
    " says partitioner = crc32; elsewhere they are rejected.",
    ("what",),
)
FILLED = Metric("deltaplane_filled_values_total", "counter", "Missing values that were filled in.")
TILES = Metric("deltaplane_source_tiles_total", "counter", "Accepted tiles of a source.", ("site", "partition"))
BARRED = Metric(
    "deltaplane_source_barred", "gauge", "1 while a source is removed from the stream, else 0.", ("site", "partition")
)

STREAM = tuple(one for one in vars().values() if isinstance(one, Metric))
"""Every metric above."""

# Of a merger process, elected or standing by. ------------------------------------------------------------------------

ELECTED = Metric("deltaplane_merger_elected", "gauge", "1 while this merger is the one that publishes, else 0.")
DELTAS = Metric(
    "deltaplane_merger_deltas_total",
    "counter",
    "Records of the deltas topic that this process has judged since it was elected, by verdict.",
    ("verdict",),
)
VOID_TRIALS = Metric(
    "deltaplane_merger_void_trials_total",
    "counter",
    "Deltas since this process was elected whose trials were of candidates that it does not have, and were left out: a"
    " few after its solver was changed.",
)
REFUSED_CHECKPOINTS = Metric(
    "deltaplane_merger_refused_checkpoints",
    "gauge",
    "Sources whose newest checkpoint is larger than its topic admits: a merger that starts goes back to an older one.",
)
SOLVER = Metric(
    "deltaplane_merger_solver_info",
    "gauge",
    "Always 1; a short digest of the solver settings and the prior that this merger was started with, elected or not.",
    ("solver",),
)
TRIMMED = Metric(
    "deltaplane_trimmed_records_total",
    "counter",
    "Records of samples and retirements that this merger has let go of, since no window needs them.",
    ("topic", "site", "partition"),
)
LOG_BEGIN = Metric(
    "deltaplane_log_begin_offset",
    "gauge",
    "Offset at which a log of samples or retirements begins, as this merger last saw it when it let go of records.",
    ("topic", "site", "partition"),
)
SOLVE_SECONDS = Metric(
    "deltaplane_solve_duration_seconds", "histogram", "Time to make a model: solve, digest, encode.", (), SECONDS
)

# Of a worker process, for the partitions it works on. ----------------------------------------------------------------

REBUILDING = Metric(
    "deltaplane_source_rebuild_age_seconds",
    "gauge",
    "For how long a source has been waiting to be claimed and rebuilt; 0 where it is in service.",
    ("site", "partition"),
)
SET_ASIDE = Metric(
    "deltaplane_source_set_aside",
    "gauge",
    "1 while a worker has set a source aside, since something keeps it from being served; 0 for its other sources.",
    ("site", "partition"),
)
REBUILD_SECONDS = Metric(
    "deltaplane_rebuild_duration_seconds",
    "histogram",
    "Time from the assignment of a source until its window stood again.",
    (),
    SECONDS,
)
ROWS_HELD = Metric(
    "deltaplane_source_held_samples",
    "gauge",
    "Samples in memory, those just behind the window included.",
    ("site", "partition"),
)
EVENT_TIME_AHEAD = Metric(
    "deltaplane_event_time_ahead_seconds",
    "gauge",
    "How far the newest event time of a source is ahead of the time at which its newest samples were appended to the"
    " log; negative where it is behind.",
    ("site", "partition"),
)
MAX_SKEW = Metric(
    "deltaplane_max_skew_seconds",
    "gauge",
    "How far ahead of the log an event time may be (max_skew); +Inf where no window ends with time.",
)
LIKE_SECONDS = Metric(
    "deltaplane_event_times_like_seconds_total",
    "counter",
    "Rows that this process has read with event times that look like seconds since the epoch, not milliseconds.",
)
FEATURE_SHIFT = Metric(
    "deltaplane_feature_shift",
    "gauge",
    "How far the mean of a feature over the last 1,000 samples of a partition is from that over the 1,000 before, in"
    " deviations of these: the largest of this worker's partitions, told without labels; the first features only.",
    ("feature",),
)
FEATURE_SPREAD = Metric(
    "deltaplane_feature_spread_ratio",
    "gauge",
    "Deviation of a feature over the last 1,000 samples of a partition over that of the 1,000 before: of this worker's"
    " partitions the one that is farthest from 1; the first features only.",
    ("feature",),
)
DRIFTS = Metric(
    "deltaplane_drifts_total",
    "counter",
    "Times that features of a partition have shifted by no chance, told without labels.",
)
ROUNDING = Metric(
    "deltaplane_grid_rounding_error",
    "gauge",
    "Largest distance between a feature's values and the grid, in the feature's own units; the first features only.",
    ("feature",),
)
ROUNDING_STEPS = Metric(
    "deltaplane_grid_rounding_error_steps",
    "gauge",
    "Largest distance between any feature's values and the grid, in steps of that feature's grid; half at most.",
)
DELTA_BYTES = Metric("deltaplane_delta_size_bytes", "histogram", "Size of published deltas.", (), BYTES)
SAMPLE_TO_MODEL = Metric(
    "deltaplane_sample_to_model_seconds",
    "histogram",
    "From the log time of the newest sample of a delta to the making of the first model that contains it.",
    (),
    SECONDS,
)

# Of a scorer process. ------------------------------------------------------------------------------------------------

PREDICTIONS = Metric("deltaplane_predictions_total", "counter", "Queries answered by this process.")
QUERY_SHIFT = Metric(
    "deltaplane_query_feature_shift",
    "gauge",
    "How far the mean of a feature over the last 1,000 answered queries of a partition is from that over the 1,000"
    " before, in deviations of these: the largest of this scorer's partitions, the first features only.",
    ("feature",),
)
QUERY_SPREAD = Metric(
    "deltaplane_query_feature_spread_ratio",
    "gauge",
    "Deviation of a feature over the last 1,000 answered queries of a partition over that of the 1,000 before.",
    ("feature",),
)
QUERY_DRIFTS = Metric(
    "deltaplane_query_drifts_total",
    "counter",
    "Times that features of the queries of a partition have shifted by no chance, told before any label.",
)
STALE_MODEL = Metric(
    "deltaplane_stale_model",
    "gauge",
    "1 where this process answers by a model that nobody renews: its topic is gone, empty or unreadable; else 0.",
)

# Of an intake process, for the partitions it works on. ---------------------------------------------------------------

INTAKE_RECORDS = Metric(
    "deltaplane_intake_records_total",
    "counter",
    "Records of users' topics that this process has read, by what they said.",
    ("what",),
)
INTAKE_SENT = Metric(
    "deltaplane_intake_sent_total",
    "counter",
    "Samples, retirements and queries that this process has made of them; samples by silence are counted as both.",
    ("what",),
)
INTAKE_WAITING = Metric(
    "deltaplane_intake_waiting_events", "gauge", "Events that wait for their label.", ("site", "partition")
)
INTAKE_LABELS = Metric(
    "deltaplane_intake_labels_without_event", "gauge", "Labels whose event has not come.", ("site", "partition")
)
INTAKE_ROWS = Metric(
    "deltaplane_intake_stored_ids", "gauge", "Ids in the store of an intake, sent or waiting.", ("site", "partition")
)
INTAKE_FORGOTTEN = Metric(
    "deltaplane_intake_forgotten_total",
    "counter",
    "Events and labels that were forgotten, since they had been kept for as long as intake.keep says.",
    ("what",),
)

INTAKE_REGISTRY_SILENT = Metric(
    "deltaplane_intake_registry_silent_seconds",
    "gauge",
    "How long the schema registry has not answered whom this intake asks, and the intake has waited; 0 if it answers.",
)

# Of a judge process. -------------------------------------------------------------------------------------------------

SERVED = Metric(
    "deltaplane_served_predictions_total", "counter", "Predictions whose label came.", ("site", "truth", "predicted")
)
SERVED_GMEAN = Metric(
    "deltaplane_served_gmean_ratio",
    "gauge",
    "Geometric mean of the recalls of the classes, of predictions whose label came; no series while undefined.",
    ("site", "span"),
)
SERVED_WAITING = Metric("deltaplane_served_waiting", "gauge", "Predictions that wait for a label.", ("site",))
SERVED_FORGOTTEN = Metric(
    "deltaplane_served_forgotten_total", "counter", "Predictions let go of before a label came.", ("site",)
)

# Of every process. ---------------------------------------------------------------------------------------------------

BUILD = Metric("deltaplane_build_info", "gauge", "Always 1; what runs here.", ("role", "version"))
READY = Metric("deltaplane_ready", "gauge", "1 where /readyz says that this process does its work, else 0.")
TURNS = Metric("deltaplane_loop_turns_total", "counter", "Turns of the process's loop.")
SEEN_VERSION = Metric(
    "deltaplane_seen_model_version", "gauge", "Version of the newest model that this process has seen."
)
REFUSED_MODELS = Metric(
    "deltaplane_refused_models_total",
    "counter",
    "Records of the models topic that this process passed over, since they are no model that the stream can have.",
)
IGNORED_WATERMARKS = Metric(
    "deltaplane_ignored_watermarks_total",
    "counter",
    "Watermarks of models, deltas and checkpoints that this process passed over: farther ahead of the log than any row"
    " may be.",
)
LAG = Metric(
    "deltaplane_consumer_lag_records",
    "gauge",
    "Records of a partition that are still to be read.",
    ("topic", "site", "partition"),
)
UNSAFE_SETTINGS = Metric(
    "deltaplane_topic_unsafe_settings",
    "gauge",
    "Settings of a topic by which rows may be lost or miscounted, or the stream stand still; no series of a topic whose"
    " settings this process may not see.",
    ("topic",),
)
SILENT_BATCHES = Metric(
    "deltaplane_silent_batches_total",
    "counter",
    "Batches of a topic that this process passed over, since no client reads them; each counts as one bad record.",
    ("topic",),
)
COMMIT_SECONDS = Metric(
    "deltaplane_commit_duration_seconds",
    "histogram",
    "From handing a record to the client until the in-sync replicas have it, which is when it counts.",
    ("topic",),
    SECONDS,
)
DEAD_LETTERS = Metric(
    "deltaplane_dead_letters_total",
    "counter",
    "Dead letters published by this process, those that were published before included.",
    ("reason",),
)

PROCESS = tuple(one for one in vars().values() if isinstance(one, Metric) and one not in STREAM)
"""Every metric between."""
