"""conf.py - how Sphinx makes the site from what stage.py has written; scripts/site runs both."""
import html
import pathlib
import posixpath
import re

from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parent.parent

project = "Tutti"
author = "the authors of Tutti"
copyright = author
release = ".".join(re.findall(r"#define TUTTI_VERSION_\w+ (\d+)", (ROOT / "include/tutti/tutti.h").read_text(encoding="utf-8")))
version = release

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 6
root_doc = "index"
nitpicky = True
smartquotes = False
highlight_language = "text"

html_theme = "furo"
html_title = "Tutti " + release
html_static_path = ["static"]
html_css_files = ["tutti.css"]
html_favicon = "static/tutti.svg"
html_logo = "static/tutti.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style, pygments_dark_style = "friendly", "github-dark"


# ------------------------------------------------------------------------------------------------------ anchors

class Anchors(SphinxTransform):
    """Links may lead to <a id="..."></a>, too, where MyST looks for headings alone."""

    default_priority = 870    # before MyST resolves links within a page

    def apply(self):
        slugs = dict(getattr(self.document, "myst_slugs", {}))
        for node in self.document.findall(lambda node: node.tagname == "raw"):
            for name in re.findall(r'<a id="([^"]+)"', node.astext()):
                slugs.setdefault(name, (node.line or 0, name, name))
        self.document.myst_slugs = slugs
        self.env.metadata[self.env.docname]["myst_slugs"] = slugs


# ---------------------------------------------------------------------------------------------------- redirects

REDIRECT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Moved</title>
<meta http-equiv="refresh" content="1; url={target}">
<link rel="canonical" href="{target}">
<script>location.replace({target_string} + location.hash)</script>
<p>This page is now <a href="{target}">{target}</a>.</p>
</html>
"""


def redirects():
    """[(page that was, page that is)] of redirects.txt."""
    lines = (SITE / "redirects.txt").read_text(encoding="utf-8").split("\n")
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def write_redirects(app, exception):
    """Where a page was, there is a small page that leads to where it is now."""
    if exception or app.builder.name != "html":
        return
    for old, new in redirects():
        place = pathlib.Path(app.outdir) / (old + ".html")
        if new not in app.env.found_docs or old in app.env.found_docs:
            raise ExtensionError("redirects.txt: %s %s: there is %s" % (old, new, "no page %s" % new if new not in app.env.found_docs else
                                                                        "a page %s" % old))
        target = posixpath.relpath(new + ".html", posixpath.dirname(old) or ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(REDIRECT.format(target=html.escape(target), target_string='"%s"' % target), encoding="utf-8")


def setup(app):
    app.add_transform(Anchors)
    app.connect("build-finished", write_redirects)
    return {"parallel_read_safe": True}
