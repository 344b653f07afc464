"""Draw the documentation site: pages by `site_pages`, HTML by Sphinx, then every link of that HTML is followed.

    .venv-docs/bin/python -m scripts.build_site [--output build/site]      (`make docs`)

Rule 1: a warning is an error, and so is a dead link inside of the site; links to elsewhere are checked for their form alone,
        since a build needs no network.
Rule 2: pages load nothing from elsewhere, and hold no date, so the same sources make the same site.
Rule 3: what is deleted to be drawn anew was drawn before: `--output` of a folder with other things in it is refused.
Runs on .venv-docs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from scripts import site_links, site_pages

ROOT: Final = site_pages.ROOT
OUTPUT: Final = ROOT / "build" / "site"
STYLE: Final = ROOT / "docs" / "site"


def settings() -> dict[str, Any]:
    """What Sphinx is told."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "project": project["name"],
        "version": project["version"],
        "release": project["version"],
        "extensions": ["myst_parser"],
        "myst_heading_anchors": 6,
        "myst_disable_syntax": ["myst_role", "myst_line_comment", "myst_block_break", "myst_target"],
        "highlight_language": "text",
        "smartquotes": False,
        "html_theme": "alabaster",
        "html_theme_options": {
            "description": project["description"],
            "fixed_sidebar": True,
            "font_family": "system-ui, sans-serif",
            "page_width": "1180px",
            "sidebar_width": "17rem",
            "show_powered_by": False,
        },
        "html_sidebars": {"**": ["about.html", "searchfield.html", "localtoc.html", "navigation.html"]},
        "html_title": project["name"],
        "html_static_path": [str(STYLE)],
        "html_css_files": ["style.css"],
        "html_copy_source": False,
        "html_show_copyright": False,
        "html_show_sphinx": False,
        "html_use_index": False,
        "nitpicky": True,
    }


def write_pages(folder: Path) -> int:
    """The sources of the site; returns how many pages."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = site_pages.site()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for image in site_pages.images():
        path = folder / image.relative_to(ROOT / "docs")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, path)
    return len(pages)


def draw(sources: Path, output: Path, cache: Path) -> int:
    """HTML; returns Sphinx's exit code, which is not 0 when there was a warning."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    for folder in (output, cache):
        shutil.rmtree(folder, ignore_errors=True)
    with patch_docutils(None), docutils_namespace():
        app = Sphinx(str(sources), None, str(output), str(cache), "html", settings(), status=None, warningiserror=True)
        app.build(force_all=True)
        return app.statuscode


def refusal(output: Path) -> str:
    """Why this folder is not deleted to be drawn anew; empty = it may be: it is not there, is empty, or Sphinx has drawn it."""
    if not output.exists():
        return ""
    if not output.is_dir():
        return f"{output} is no folder"
    if any(output.iterdir()) and not (output / ".buildinfo").exists():
        return f"{output} is no site of ours: name another folder, or delete it yourself"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Builds and checks. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default build/site")
    output = parser.parse_args(arguments).output
    if problem := refusal(output):
        print(f"docs: {problem}", file=sys.stderr)
        return 1
    try:
        pages = write_pages(output.with_name(f"{output.name}-pages"))
    except site_pages.SiteError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    if code := draw(output.with_name(f"{output.name}-pages"), output, output.with_name(f"{output.name}-cache")):
        print("docs: warnings are errors", file=sys.stderr)
        return code
    checked, shown = site_links.check(output), output.relative_to(ROOT) if output.is_relative_to(ROOT) else output
    for problem in checked.problems:
        print(f"docs: {problem}", file=sys.stderr)
    print(f"docs: {pages} pages, 0 warnings, {checked.links} links, {len(checked.problems)} dead: {shown}/index.html")
    return 1 if checked.problems else 0


if __name__ == "__main__":
    sys.exit(main())
