"""Sphinx configuration. The build needs no network unless UNSEEN_DOCS_INTERSPHINX is set."""

import os
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging
from sphinx_gallery.sorting import ExplicitOrder

import unseen

sys.path.insert(0, str(Path(__file__).parent))  # for cli_reference.py

project = "unseen"
author = "The unseen developers"
copyright = "The unseen developers"
version = release = unseen.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "cli_reference",
]
if os.environ.get("UNSEEN_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
smartquotes = False  # links from notebooks look for the text of a parameter as it stands in the docstring
default_role = "literal"  # docstrings name parameters in single backticks
# Every cross-reference must resolve, except into other projects when intersphinx is off.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|numpy|scipy|matplotlib)\..*")]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the class template lists the members itself

GALLERY_ORDER = [
    "plot_penguins.py",
    "plot_unseen_domain.py",
    "plot_compare.py",
    "plot_diagnose.py",
    "plot_ensemble.py",
    "plot_prediction_sets.py",
    "plot_novelty.py",
    "plot_methods_and_centering.py",
    "plot_centering.py",
    "plot_label_shift.py",
    "plot_choosing_weights.py",
    "plot_undo_bias.py",
    "plot_production.py",
    "plot_landmarks.py",
    "plot_stream.py",
    "plot_one_decomposition.py",
]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("unseen",),
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "within_subsection_order": ExplicitOrder(GALLERY_ORDER),
}

html_theme = "pydata_sphinx_theme"
html_title = f"unseen {release}"
html_static_path = ["_static"]
html_css_files = ["mathml.css", "code.css", "options.css", "landing.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_prev_next": True,
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def skip_foreign_members(app, what, name, obj, skip, options):
    """Leave out methods of scikit-learn and of sequences, whose docstrings refer to pages that are not here."""
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith(("sklearn.", "collections.")) else None


def write_mathml(translator, node):
    """Write formulas as MathML, which browsers show by themselves; MathJax would have to come over the network."""
    block, numbered = isinstance(node, nodes.math_block), bool(node.get("number"))
    formula = convert(" ".join(node.astext().split()), display="block" if block else "inline")
    if "\\" in formula:  # a command that the converter does not know would be shown as it is typed
        logging.getLogger(__name__).warning("formula is not understood: %s", node.astext(), location=node)
    if numbered:
        translator.body.append(translator.starttag(node, "div", CLASS="numbered-formula"))
        translator.body.append(f'{formula}<span class="eqno">({node["number"]})</span></div>')
    else:
        translator.body.append(formula)
    raise nodes.SkipNode


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.add_html_math_renderer("mathml", (write_mathml, None), (write_mathml, None))
