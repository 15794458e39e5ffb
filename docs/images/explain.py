#!/usr/bin/env python3
"""Draws idea.svg and run.svg of this directory anew:

    docs/images/explain.py [DIRECTORY]

idea.svg shows what the program is for. run.svg is to scale: its times come from the rules of src/run/timing.rs, which are written
down here once more, and a test there compares the numbers. Each picture has the colours of a light and of a dark page, and takes
those that the reader's system asks for. With a DIRECTORY, each is also left there in one set of colours alone, for programs that
know no such choice.
"""

import html, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))

# By class: what is filled or drawn, on a light page and on a dark one.
COLOURS = {
    "page": ("fill", "#ffffff", "#0d1117"),
    "box": ("fill", "#f6f8fa", "#161b22"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    "faint": ("fill", "#59636e", "#9198a1"),
    "job": ("fill", "#1a7f37", "#3fb950"),
    "good": ("fill", "#1a7f37", "#3fb950"),
    "held": ("fill", "#b6d7fb", "#1f4a7a"),
    "kept": ("fill", "#e3eefb", "#16304f"),
    "bad": ("fill", "#cf222e", "#f85149"),
    "late": ("fill", "#bc4c00", "#f0883e"),
    "blue": ("fill", "#0969da", "#58a6ff"),
    "edge": ("stroke", "#d0d7de", "#30363d"),
    "line": ("stroke", "#59636e", "#9198a1"),
    "blueline": ("stroke", "#0969da", "#58a6ff"),
    "badline": ("stroke", "#cf222e", "#f85149"),
    "lateline": ("stroke", "#bc4c00", "#f0883e"),
}


def style(theme):
    def rules(column):
        return "".join(f".{name}{{{colour[0]}:{colour[column]}}}" for name, colour in COLOURS.items())

    if theme is not None:
        return rules(theme)
    return rules(1) + "@media (prefers-color-scheme: dark){" + rules(2) + "}"


class Picture:
    """What is drawn so far."""

    def __init__(self, width, height, title, description):
        self.width, self.height, self.title, self.description = width, height, title, description
        self.parts = []

    def rect(self, x, y, width, height, classes, round=0):
        self.parts.append(f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round}"/>')

    def line(self, x1, y1, x2, y2, classes, more=""):
        self.parts.append(f'<line class="{classes}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{more}/>')

    def arrow(self, x1, y1, x2, y2, classes, tip):
        """An arrow to the right, which may rise or fall; `tip` is the class of its head."""
        self.line(x1, y1, x2 - 8, y2, classes, ' stroke-width="2"')
        self.parts.append(f'<path class="{tip}" d="M{x2:g} {y2:g}l-10 -5v10z"/>')

    def text(self, x, y, words, classes="text", size=14, anchor="start", more=""):
        self.parts.append(
            f'<text class="{classes}" x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>'
        )

    def code(self, x, y, words, classes="text", size=13, anchor="start"):
        self.text(x, y, words, classes, size, anchor, " font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\"")

    def write(self, path, theme):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" '
            'role="img" aria-labelledby="title description">\n'
            f'<title id="title">{html.escape(self.title)}</title>\n<desc id="description">{html.escape(self.description)}</desc>\n'
            f"<style>{style(theme)}</style>\n"
            f'<rect class="page" width="{self.width}" height="{self.height}" rx="8"/>\n'
            "<g font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n"
        )
        with open(path, "w") as file:
            file.write(head + "\n".join(self.parts) + "\n</g>\n</svg>\n")


def idea():
    picture = Picture(
        900, 372, "One lock, one run",
        "Three hosts start the same job at 02:30. All ask for the lock named backup. web2 gets it and runs the job; web1 and web3 find it "
        "held and exit with 0 and print nothing.",
    )
    picture.text(450, 34, "The same line in the crontab of every host:", "faint", 14, "middle")
    picture.code(450, 58, "30 2 * * *  shedlock run --name backup --at-most 6h --every 1d -- backup", "text", 14, "middle")
    rows = [("web1", 122, False), ("web2", 202, True), ("web3", 282, False)]
    left, middle, right = 30, 370, 620
    picture.rect(middle, 132, 160, 140, "box edge", 10)
    picture.text(middle + 80, 162, "the lock", "faint", 13, "middle")
    picture.code(middle + 80, 190, "backup", "blue", 20, "middle")
    for row, words in enumerate(("in a database", "that all hosts", "reach")):
        picture.text(middle + 80, 216 + row * 17, words, "faint", 12, "middle")
    for host, y, wins in rows:
        picture.rect(left, y - 28, 170, 56, "box edge", 8)
        picture.text(left + 18, y + 6, host, "text", 17)
        picture.text(left + 152, y + 5, "02:30:00", "faint", 13, "end")
        aim = 202 + (y - 202) * 0.5
        picture.arrow(left + 174, y, middle - 4, aim, "blueline" if wins else "line", "blue" if wins else "faint")
        picture.arrow(middle + 164, aim, right - 6, y, "blueline" if wins else "line", "blue" if wins else "faint")
        picture.rect(right, y - 28, 250, 56, "box edge", 8)
        if wins:
            picture.rect(right, y - 28, 6, 56, "job", 3)
            picture.text(right + 20, y - 4, "runs the job", "good", 16, more=' font-weight="600"')
            picture.text(right + 20, y + 16, "and exits with the job's exit code", "faint", 13)
        else:
            picture.text(right + 20, y - 4, "held: nothing runs", "text", 15)
            picture.text(right + 20, y + 16, "no output, exit code 0", "faint", 13)
    picture.text(450, 350, "If web2 dies, its lock expires by itself. If the job hangs, it is stopped before its lock expires.", "text", 14, "middle")
    return picture


# The rules of src/run/timing.rs, in seconds.


def margin(span):
    return min(max(span / 20, 0.1), 2) + span / 2000


def kill_before(span):
    """How long before the end of at-most, or of a lease, SIGKILL goes out."""
    return margin(span)


def stop_before(span, kill_after):
    """How long before it the first signal does."""
    return margin(span) + min(kill_after, span / 5)


AT_MOST, LEASE, AT_LEAST, EVERY, KILL_AFTER = 300, 60, 90, 300, 10


def run():
    left, scale, top, high = 40, 2.3, 150, 124
    width, height = 860, 150 + 4 * 124 + 20
    picture = Picture(
        width, height, "Four runs over time",
        "One: the job ends and its lock is kept for at-least or every. Two: the job hangs and is ended before at-most. Three: the backend "
        "is away, and the job is ended before the lease ends. Four: the host dies, and the lock frees when the lease ends.",
    )

    def at(seconds):
        return left + seconds * scale

    def clock(seconds):
        return f"{int(seconds // 60)}:{int(seconds % 60):02}"

    def renewals(y, times, good=True):
        for time in times:
            picture.parts.append(f'<circle class="{"blue" if good else "late"}" cx="{at(time):g}" cy="{y + 34:g}" r="4"/>')

    def mark(time, y, classes, words, anchor="middle", shift=0, row=0):
        picture.line(at(time), y + 4, at(time), y + 50 + 16 * row, classes + "line", ' stroke-width="2"')
        picture.text(at(time) + shift, y + 64 + 16 * row, words, classes, 12, anchor)

    picture.code(left, 32, "shedlock run --name report --at-most 5m --lease 1m --at-least 90s -- report", size=14)
    legend = [("job", "the job runs"), ("held", "the lock is held for it"), ("kept", "the lock stays held without it")]
    x = left
    for name, words in legend:
        picture.rect(x, 52, 22, 12, name, 2)
        picture.text(x + 30, 63, words, "faint", 13)
        x += 60 + len(words) * 6.6
    picture.parts.append(f'<circle class="blue" cx="{x + 4:g}" cy="58" r="4"/>')
    picture.text(x + 16, 63, "renewed", "faint", 13)
    picture.parts.append(f'<circle class="late" cx="{x + 94:g}" cy="58" r="4"/>')
    picture.text(x + 106, 63, "no answer", "faint", 13)
    for minute in range(0, 6):
        time = minute * 60
        picture.line(at(time), 104, at(time), height - 30, "edge")
        picture.text(at(time), 96, clock(time) + (" min" if minute else ""), "faint", 12, "middle")
    picture.text(at(0), height - 10, "taken", "faint", 12, "middle")
    picture.text(at(LEASE) - 10, height - 10, "--lease", "faint", 12, "middle")
    picture.text(at(AT_LEAST) + 16, height - 10, "--at-least", "faint", 12, "middle")
    picture.text(at(AT_MOST), height - 10, "--at-most", "faint", 12, "middle")

    picture.line(at(AT_LEAST), height - 34, at(AT_LEAST), height - 24, "line")

    def story(index, title):
        y = top + index * high
        picture.text(left, y - 10, title, "text", 14, more=' font-weight="600"')
        return y

    end = 50
    y = story(0, "The job ends after 0:50")
    picture.rect(at(0), y, at(end) - at(0), 20, "job", 3)
    picture.rect(at(0), y + 24, at(end) - at(0), 20, "held", 3)
    picture.rect(at(end), y + 24, at(AT_LEAST) - at(end), 20, "kept", 3)
    renewals(y, range(LEASE // 3, end, LEASE // 3))
    dashes = ' fill="none" stroke-dasharray="5 4"'
    picture.line(at(AT_LEAST) + 3, y + 34, at(EVERY), y + 34, "blueline", dashes)
    picture.line(at(EVERY), y + 24, at(EVERY), y + 44, "blueline", ' stroke-width="2"')
    picture.text(at(EVERY) - 4, y + 20, "with --every 5m it stays held until here", "text", 12, "end")
    mark(end, y, "blue", "the job's exit code")
    picture.text(at(AT_LEAST) + 8, y + 64, "free: --at-least is over", "text", 12)

    stop, kill = AT_MOST - stop_before(AT_MOST, KILL_AFTER), AT_MOST - kill_before(AT_MOST)
    y = story(1, "The job hangs")
    picture.rect(at(0), y, at(kill) - at(0), 20, "job", 3)
    picture.rect(at(0), y + 24, at(AT_MOST) - at(0), 20, "held", 3)
    renewals(y, range(LEASE // 3, AT_MOST - LEASE + 1, LEASE // 3))
    mark(stop, y, "late", f"TERM {AT_MOST - stop:.2f} s before the end", "end", 4)
    mark(kill, y, "bad", f"SIGKILL {AT_MOST - kill:.2f} s before the end: all of it is dead, exit code 124", "end", 4, 1)

    last = LEASE
    stop, kill = last + LEASE - stop_before(LEASE, KILL_AFTER), last + LEASE - kill_before(LEASE)
    y = story(2, "The backend is away from 1:10 on")
    picture.rect(at(0), y, at(kill) - at(0), 20, "job", 3)
    picture.rect(at(0), y + 24, at(last + LEASE) - at(0), 20, "held", 3)
    renewals(y, range(LEASE // 3, last + 1, LEASE // 3))
    renewals(y, [last + LEASE // 3], good=False)
    picture.text(at(last + LEASE) + 8, y + 39, "free: the last lease is over", "text", 12)
    mark(stop, y, "late", f"TERM {last + LEASE - stop:.2f} s before the lease ends", "end", 4)
    mark(kill, y, "bad", f"SIGKILL {last + LEASE - kill:.2f} s before: all of it is dead, exit code 123", "start", -4, 1)

    dead = 70
    y = story(3, "The host dies at 1:10")
    picture.rect(at(0), y, at(dead) - at(0), 20, "job", 3)
    picture.rect(at(0), y + 24, at(dead) - at(0), 20, "held", 3)
    picture.rect(at(dead), y + 24, at(last + LEASE) - at(dead), 20, "kept", 3)
    renewals(y, range(LEASE // 3, last + 1, LEASE // 3))
    picture.text(at(last + LEASE) + 8, y + 39, "free: the last lease is over. Without --lease: at 5:00", "text", 12)
    mark(dead, y, "bad", "no power")
    return picture


def main():
    for name, picture in (("idea", idea()), ("run", run())):
        picture.write(os.path.join(HERE, f"{name}.svg"), None)
        for theme, word in ((1, "light"), (2, "dark")) if len(sys.argv) > 1 else ():
            picture.write(os.path.join(sys.argv[1], f"{name}-{word}.svg"), theme)


main()
