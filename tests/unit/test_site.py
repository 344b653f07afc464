"""The site has a page for every document, cut from the same files; what draws it is not needed here (`make docs`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import build_site, markdown, site_links, site_pages
from scripts.site_pages import MENU, SiteError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The documentation alone, to be changed."""
    for name in ("README.md", "ARCHITECTURE.md", "STYLE.md", "CHANGELOG.md", "LICENSE", "helm/oncelog/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name in ("docs", "examples", "protos"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_every_document_has_a_page_and_every_link_of_it_a_target() -> None:
    pages = site_pages.site(ROOT)
    for path in (ROOT / "docs").rglob("*.md"):
        inside = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        assert inside.replace("README", "index") in pages
    assert {page for pages in MENU.values() for page in pages} <= set(pages)
    links = 0
    for page, text in pages.items():
        for link in markdown.links(text):
            if site_pages.is_relative(link.target) and not link.target.endswith(".png"):
                file, _, anchor = link.target.partition("#")
                there = (Path(page).parent / file).as_posix().removesuffix(".md") if file else page
                there = Path("/", there).resolve().as_posix().removeprefix("/")
                assert there in pages, f"{page}: {link.target}"
                assert not anchor or anchor in markdown.anchors(pages[there]), f"{page}: {link.target}"
                links += 1
    assert links > 280


def test_the_quick_start_is_the_readmes_and_nothing_is_there_twice() -> None:
    pages = site_pages.site(ROOT)
    text = (ROOT / "README.md").read_text()
    for command in ("make demo", "oncelog up --detach", 'format("oncelog")', "helm install oncelog"):
        assert command in text
        assert command in pages["quick-start"]
        assert command not in pages["index"]
    assert "Fenced.**" in pages["index"]


def test_a_readme_without_a_section_of_the_quick_start_is_refused(copy: Path) -> None:
    (copy / "README.md").write_text((copy / "README.md").read_text().replace("## Write and read", "## Else"))
    with pytest.raises(SiteError, match=r"README\.md has no section Write and read"):
        site_pages.site(copy)


def test_a_page_that_no_menu_names_is_refused(copy: Path) -> None:
    (copy / "docs" / "new.md").write_text("# New\n")
    with pytest.raises(SiteError, match="no menu names new: add them to MENU"):
        site_pages.site(copy)


def test_a_menu_entry_without_a_page_is_refused(copy: Path) -> None:
    (copy / "docs" / "tools.md").unlink()
    with pytest.raises(SiteError, match="names pages that do not exist: tools"):
        site_pages.site(copy)


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("[x](../Makefile)", r"links to \.\./Makefile, which has no page"),
        ("[x](cli.md#no-such)", "and there is no such heading"),
        ("[x](#no-such)", "and there is no such heading"),
    ],
)
def test_a_link_that_leaves_the_site_is_refused(copy: Path, link: str, says: str) -> None:
    append(copy / "docs" / "tools.md", f"\n{link}\n")
    with pytest.raises(SiteError, match=says):
        site_pages.site(copy)


def test_links_are_led_from_files_to_pages(copy: Path) -> None:
    append(
        copy / "docs" / "tools.md",
        "\n[a](../README.md) [b](../README.md#spark) [c](../helm/oncelog/README.md) [d](decisions)\n",
    )
    append(copy / "docs" / "decisions" / "README.md", "\n[e](../../ARCHITECTURE.md#doors) `[f](x.md)`\n")
    pages = site_pages.site(copy)
    assert "[a](index.md) [b](quick-start.md#spark) [c](helm-chart.md) [d](decisions/index.md)" in pages["tools"]
    assert "[e](../architecture.md#doors) `[f](x.md)`" in pages["decisions/index"]


# ---------------------------------------------------------------- HTML


def test_links_of_html_are_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<h1 id="top">B</h1><a href="../a.html#x">a</a><a href="#top">up</a>')
    (tmp_path / "a.html").write_text('<h1 id="x">A</h1><a href="sub/b.html">b</a><a href="https://x.example/">x</a>')
    checked = site_links.check(tmp_path)
    assert (checked.links, checked.problems) == (4, [])


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="lost.html">x</a>', "lost.html: leads to no file"),
        ('<a href="#lost">x</a>', "#lost: leads to no heading"),
        ('<a href="https:///x">x</a>', "https:///x: is no address"),
        ('<a href="javascript:x">x</a>', "javascript:x: is no address"),
        ('<img src="https://x.example/y.png">', "https://x.example/y.png: is loaded from elsewhere"),
        ('<link rel="stylesheet" href="//x.example/y.css">', "//x.example/y.css: is loaded from elsewhere"),
    ],
)
def test_what_is_wrong_with_a_link_is_said(tmp_path: Path, html: str, problem: str) -> None:
    (tmp_path / "a.html").write_text(html)
    assert site_links.check(tmp_path).problems == [f"a.html: {problem}"]


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert site_links.check(tmp_path).problems == [f"no pages in {tmp_path}"]


@pytest.mark.parametrize("name", ["letter.txt", ".hidden"])
def test_a_folder_with_other_things_in_it_is_not_deleted(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text("mine")
    assert build_site.main(["--output", str(tmp_path)]) == 1
    assert "no site of ours" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "mine"
    assert build_site.refusal(tmp_path / name).endswith("is no folder")
    (tmp_path / ".buildinfo").touch()
    assert build_site.refusal(tmp_path) == ""
    (tmp_path / "empty").mkdir()
    assert build_site.refusal(tmp_path / "empty") == build_site.refusal(tmp_path / "none") == ""
