"""How the pages are built: `make docs`. What is generated in them comes from :mod:`generate`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from deltaplane import __version__

project = "Deltaplane"
version = release = __version__
author = "The Deltaplane authors"
project_copyright = "the Deltaplane authors, Apache License 2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "generate"]
exclude_patterns = ["generate"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# A link to a file beside the pages (an alert rule, a schema) offers that file.
suppress_warnings = ["myst.xref_ambiguous"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = f"Deltaplane {__version__}"
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
