"""Markdown is cut into finished blocks while it streams, and rendered without trust."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from term2_acp.chat.markdown import MarkdownStream, SafeMarkdown

TEXT = """\
# Heading

A paragraph
of two lines.

1. first

   more of it
2. second

```python
code()

more
```
| a | b |
|---|---|
| 1 | 2 |

> quoted

The end."""


def streamed(pieces):
    """All pieces that come out of a stream."""
    stream = MarkdownStream()
    found = [piece for text in pieces for piece in stream.feed(text)]
    return [*found, *stream.finish()]


def rendered(markup, width=60):
    """What stands on the screen."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(SafeMarkdown(markup))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_the_blocks_are_the_same_however_it_comes_in(sizes):
    """Cut anywhere: the blocks are those of the whole text, and nothing is lost or doubled."""
    texts, start = [], 0
    for size in sizes:
        texts.append(TEXT[start : start + size])
        start += size
    texts.append(TEXT[start:])
    pieces = streamed(texts)
    assert TEXT == "".join(piece.source for piece in pieces)
    assert [piece.source.split("\n")[0] for piece in pieces] == [
        "# Heading",
        "A paragraph",
        "1. first",
        "```python",
        "| a | b |",
        "> quoted",
        "The end.",
    ]


def test_a_block_is_given_out_as_soon_as_the_next_begins():
    """What is open is the last block alone."""
    stream = MarkdownStream()
    assert [] == stream.feed("one\n\n")
    assert ["one\n\n"] == [piece.source for piece in stream.feed("two\n")]
    assert stream.rest == "two\n"


def test_long_code_is_given_out_in_parts():
    """Each part is code of that language, the parts go on with one another, no line is lost."""
    code = [f"line {number}\n" for number in range(100)]
    pieces = streamed(["```python\n", *code, "```\n", "\nafter\n"])
    *parts, after = pieces
    assert len(parts) > 3
    assert all(part.source.startswith("```python\n") for part in parts)
    assert [part.continues for part in parts] == [False] + [True] * (len(parts) - 1)
    shown = [line.strip() for part in parts for line in rendered(part.source)]
    assert [line.strip() for line in code] == shown
    assert (after.source, after.continues) == ("after\n", False)


def test_long_lists_and_lines_are_given_out_in_parts():
    """A list by its items with their numbers, a line without end by its words."""
    items = streamed([f"{number}. item\n" for number in range(1, 101)])
    assert len(items) > 3
    assert "".join(piece.source for piece in items).count("item") == 100
    assert rendered(items[-1].source)[0].split()[0] != "1"
    words = streamed(["word "] * 10_000)
    assert max(len(piece.source) for piece in words) <= 9000
    assert "".join(piece.source for piece in words).count("word") == 10_000


def test_html_entities_images_and_links_are_text():
    """Nothing is hidden, and entities bring no control characters."""
    assert rendered("<b>x</b> &lt;y&gt; &#27;[2J &#x9b;2J &#x202e;z") == [
        "<b>x</b> <y> �[2J �2J <U+202E>z"
    ]
    assert rendered("[text](http://a/b) ![alt](c.png)") == [
        "text (http://a/b) [image: alt] (c.png)"
    ]


def test_line_ends_are_kept():
    """A paragraph of several lines is shown as it was written."""
    assert ["one", "two"] == rendered("one\ntwo")


def test_a_line_end_in_two_halves_is_one():
    """CR LF, cut between."""
    assert ["a\nb"] == [piece.source for piece in streamed(["a\r", "\nb"])]
