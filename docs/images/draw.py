#!/usr/bin/env python3
"""Draws the pictures of this directory anew, from made-up runs in a database of their own:

    cargo build && docs/images/draw.py target/*/debug/shedlock

status.svg is what a terminal shows of `shedlock status`, timeline.svg what `shedlock history --svg` writes, and page.png
what Chromium shows of `shedlock history --html`, on a desk and on a telephone (it needs `chromium` and Pillow). With more arguments, a directory and widths
of terminals, it also leaves there what those show, as SVG.
"""

import fcntl, html, os, pty, random, re, sqlite3, struct, subprocess, sys, tempfile, termios, time

HERE = os.path.dirname(os.path.abspath(__file__))
HOUR, DAY = 3600, 86400


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".%03dZ" % (seconds % 1 * 1000)


def fill(database, now):
    """Writes locks in every state, and the runs of a day and a half."""
    chance = random.Random(5)
    runs, locks = [], {}

    def owner(host):
        return f"{host}:{chance.randrange(900, 32000)}:{chance.getrandbits(64):016x}"

    def run(name, host, start, took, outcome, code):
        who = owner(host)
        runs.append((start, name, who, host, None if took is None else start + took, code, outcome))
        return who

    midnight = now // DAY * DAY
    for hour in range(-30, int((now - midnight) // HOUR) + 1):
        start, host = midnight + hour * HOUR + 2, chance.choice(["web1", "web2"])
        if -9 <= hour <= -6:
            continue  # The database was away.
        if hour % 7 == 3:
            run("import-orders", host, start + 300, 20, "failure", 1)
        elif start + 2400 < now:
            run("import-orders", host, start + 300, chance.randrange(240, 1700), "success", 0)
    run("import-orders", "web2", now - 420, 24, "failure", 1)
    for quarter in range(int(30 * 4)):
        start = now - 1000 - quarter * 900
        run("rotate-logs", chance.choice(["web1", "web2", "db1"]), start, chance.randrange(2, 40), "success", 0)
    for days in (1, 0):
        night = midnight - days * DAY
        if night + 4 * HOUR < now:
            run("backup", "db1", night + 2 * HOUR, 4 * HOUR if days == 0 else 2.2 * HOUR, *(("expired", 124) if days == 0 else ("success", 0)))
        run("nightly-report", "web2", night - 30 * 60, 75 * 60, "success", 0)
    run("send-newsletter", "web1", now - 25 * HOUR, None, None, None)
    run("send-newsletter", "web1", now - HOUR, 0.4 * HOUR, "success", 0)
    run("rebuild-index", "db2", now - 20 * HOUR, 1.5 * HOUR, "lost", 123)
    run("rebuild-index", "db2", now - 14 * HOUR, 3 * HOUR, "success", 0)
    who = run("rebuild-index", "db2", now - 1.6 * HOUR, None, None, None)
    locks["rebuild-index"] = (who, now - 1.6 * HOUR, now + 2.4 * HOUR)
    last = max(item for item in runs if item[1] == "rotate-logs")
    locks["rotate-logs"] = (last[2] + ":ended", last[0], now + 34)
    locks["backup"] = ("paused:ada@ops1:the disk of db1 is being replaced::0123456789abcdef", now - 41 * 60, now + 3650 * DAY)
    locks["import-orders"] = ("web1:1:ff", now - HOUR, now - 1200)
    locks["send-newsletter"] = ("web1:1:ff", now - HOUR, now - 0.6 * HOUR)
    locks["nightly-report"] = ("web2:1:ff", now - 9 * HOUR, now - 8 * HOUR)
    locks["send-invoices"] = ("billing-7d9c5b6f4-x2x9p", now - 193, now + 407)
    with sqlite3.connect(database) as store:
        store.execute("DELETE FROM shedlock")
        store.execute("DELETE FROM shedlock_history")
        for name, (who, since, until) in locks.items():
            store.execute(
                "INSERT INTO shedlock (name, locked_by, locked_at, lock_until) VALUES (?, ?, ?, ?)",
                (name, who, stamp(since), stamp(until)),
            )
        for token, (start, name, who, host, end, code, outcome) in enumerate(sorted(runs), 4100):
            store.execute(
                "INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (token, name, who, host, stamp(start), end and stamp(end), code, outcome),
            )


def on_terminal(words, columns, environment):
    """What a command writes to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    child.wait()
    return text.decode().replace("\r\n", "\n")


COLOURS = {"32": "#3fb950", "1;31": "#ff7b72", "33": "#d29922", "36": "#39c5cf", "2": "#8b949e", "1": "#f0f6fc"}
WIDE, HIGH, EDGE = 8.43, 19, 16


def screenshot(command, text, columns):
    """A terminal with this on it, as SVG."""
    lines = [f"\x1b[2m$\x1b[0m {command}"] + text.rstrip("\n").split("\n")
    width, height = columns * WIDE + 2 * EDGE, len(lines) * HIGH + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">',
        f"<title>{html.escape(command)}</title>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
        "<g font-family=\"'DejaVu Sans Mono', ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#c9d1d9\" xml:space=\"preserve\">",
    ]
    for row, line in enumerate(lines):
        column, paint = 0, None
        for piece in re.split("(\x1b\\[[0-9;]*m)", line):
            if piece.startswith("\x1b["):
                paint = COLOURS.get(piece[2:-1])
                continue
            # Each word has a place of its own: no font of the reader's moves what stands behind it.
            for word in re.finditer("\\S+(?: \\S+)*", piece):
                x, y = EDGE + (column + word.start()) * WIDE, EDGE + row * HIGH + 14
                fill = f' fill="{paint}"' if paint else ""
                long = f' textLength="{len(word[0]) * WIDE:.1f}"'
                parts.append(f'<text x="{x:.1f}" y="{y}"{long}{fill}>{html.escape(word[0])}</text>')
            column += len(piece)
    return "\n".join(parts + ["</g>", "</svg>"]) + "\n"


def photograph(page, place):
    """Shows the page twice beside each other, as a browser does."""
    frames = os.path.join(place, "frames.html")
    with open(frames, "w") as file:
        file.write(
            "<body style='margin:0;display:flex;gap:24px;align-items:flex-start;background:#888'>"
            f"<iframe src='{page}' style='width:1080px;height:1180px;border:0;color-scheme:light'></iframe>"
            f"<iframe src='{page}' style='width:390px;height:1180px;border:0;color-scheme:dark'></iframe>"
        )
    words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--allow-file-access-from-files", "--window-size=1494,1180"]
    picture = os.path.join(HERE, "page.png")
    subprocess.run(["chromium", *words, f"--screenshot={picture}", frames], check=True, stderr=subprocess.DEVNULL)
    from PIL import Image

    Image.open(picture).quantize(256, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)


def main():
    shedlock = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        database = os.path.join(place, "locks.db")
        environment = {"SHEDLOCK_BACKEND": f"sqlite:{database}", "TERM": "xterm-256color", "HOME": place, "PATH": os.environ["PATH"]}
        subprocess.run([shedlock, "run", "--name", "first", "--at-most", "1m", "true"], env=environment, check=True)
        fill(database, time.time())
        text = on_terminal([shedlock, "status"], 100, environment)
        with open(os.path.join(HERE, "status.svg"), "w") as file:
            file.write(screenshot("shedlock status", text, 100))
        drawing = os.path.join(HERE, "timeline.svg")
        subprocess.run([shedlock, "history", "--since", "32h", "--svg", drawing], env=environment, check=True)
        page = os.path.join(place, "page.html")
        subprocess.run([shedlock, "history", "--since", "32h", "--html", page], env=environment, check=True)
        with open(page) as file:
            text = file.read().replace(f"sqlite:{database}", "postgres://jobs@db.example.org/jobs")
        with open(page, "w") as file:
            file.write(text)
        photograph(page, place)
        for columns in map(int, sys.argv[3:]):
            for number, words in enumerate((["status"], ["history", "--limit", "12"], ["history", "--timeline", "--since", "32h"], ["history", "--timeline", "--by", "host"])):
                text = on_terminal([shedlock, *words], columns, environment)
                with open(os.path.join(sys.argv[2], f"{columns}-{number}.svg"), "w") as file:
                    file.write(screenshot("shedlock " + " ".join(words), text, columns))


main()
