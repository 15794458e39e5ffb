
use builtin;
use str;

set edit:completion:arg-completer[shedlock] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'shedlock'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'shedlock'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand completions 'Print the completions for a shell'
            cand man 'Show a manual page on a terminal, or print it for man(1)'
            cand run 'Run a command under a lock'
            cand status 'Show who holds which lock, and how the last runs ended'
            cand history 'Show past runs, as a table or a picture'
            cand unlock 'Free a held lock'
            cand pause 'Keep every host from running a job until it is resumed'
            cand resume 'End a pause'
            cand forget 'Remove locks that are no longer used, with their history'
            cand acquire 'Take a lock for a script, and print the handle to release it'
            cand release 'Release a lock that `acquire` took'
            cand extend 'Give a lock and its job more time'
            cand verify 'Check before a dangerous step that the lock is still held'
            cand check 'Test whether this host can lock, and show what is in the way'
            cand prove 'Try whether this backend keeps the rules of a lock'
            cand init 'Create the tables or the file that the backend needs'
            cand schema 'Print the statements that create what a backend needs'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'shedlock;completions'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'shedlock;man'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'shedlock;run'= {
            cand --name 'Name of the lock (required)'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand -E 'Exit code if the lock is held'
            cand --conflict-exit-code 'Exit code if the lock is held'
            cand --history-keep 'Number of runs to keep [1000]'
            cand --at-most 'Time limit of lock and job (required)'
            cand --every 'Run at most once per DURATION'
            cand --at-least 'Keep the lock this long even after a short job'
            cand --lease 'If the host dies, free the lock after DURATION'
            cand -w 'Wait up to DURATION for a held lock'
            cand --wait 'Wait up to DURATION for a held lock'
            cand --splay 'First sleep for a random time up to DURATION'
            cand --on-expiry 'When --at-most is used up'
            cand --on-lost 'When the lock is lost'
            cand --on-failure 'What happens to a failed job''s lock'
            cand -s 'First signal to stop the job [TERM]'
            cand --signal 'First signal to stop the job [TERM]'
            cand -k 'Send SIGKILL this much later [10s]'
            cand --kill-after 'Send SIGKILL this much later [10s]'
            cand --stop-timeout 'Kill a job that does not stop'
            cand --wait-for 'What has to end before the lock is released'
            cand --success-codes 'Exit codes of a success'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --on-backend-error 'When the backend does not answer'
            cand --log-format 'Print each event as a line of text or JSON'
            cand --notify 'Run COMMAND when a run has failed'
            cand --notify-on 'Events that --notify reports [failure,expired,lost,error]'
            cand --notify-timeout 'Kill that COMMAND after DURATION [10s]'
            cand --metrics-dir 'Write metrics for Prometheus'
            cand --config 'Read only this configuration file'
            cand -h 'Print this overview; --help prints all options'
            cand --help 'Print this overview; --help prints all options'
            cand --foreground 'Run the job in shedlock''s process group'
            cand --new-group 'Run the job in its own process group'
            cand --no-die-with-shedlock 'Let the command outlive shedlock'
            cand -v 'Say why a job did not start; -vv: everything'
            cand --verbose 'Say why a job did not start; -vv: everything'
            cand -q 'Print only errors'
            cand --quiet 'Print only errors'
            cand --dry-run 'Show what would happen and when, and exit'
        }
        &'shedlock;status'= {
            cand --max-age 'Exit with 1 if a success is too old'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --json 'Print JSON instead of a table'
            cand --local 'Show times in local time instead of UTC'
            cand --exit-code 'Exit with 1 unless all are free'
            cand --prometheus 'Print metrics for Prometheus'
            cand --watch 'Refresh every two seconds until interrupted'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;history'= {
            cand --limit 'Show the newest N runs'
            cand --since 'Show runs that ended later than TIME'
            cand --svg 'Write that picture as SVG to FILE'
            cand --html 'Write an HTML page to FILE'
            cand --by 'Draw one line per job or host'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --json 'Print JSON instead of a table'
            cand --local 'Show times in local time instead of UTC'
            cand --timeline 'Draw the runs as bars over time'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;unlock'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --force 'Do not ask'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;pause'= {
            cand --for 'End the pause after DURATION'
            cand --reason 'Say why'
            cand --wait 'Wait this long for a running job'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;resume'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;forget'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --force 'Remove locks of other programs too'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;acquire'= {
            cand --name 'Name of the lock (required)'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand -E 'Exit code if the lock is held [1]'
            cand --conflict-exit-code 'Exit code if the lock is held [1]'
            cand --history-keep 'Number of runs to keep [1000]'
            cand --at-most 'Time limit of the lock (required)'
            cand --at-least 'Keep the lock this long even if released sooner'
            cand -w 'Wait up to DURATION for a held lock'
            cand --wait 'Wait up to DURATION for a held lock'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --on-backend-error 'When the backend does not answer'
            cand --log-format 'Print each event as a line of text or JSON'
            cand --config 'Read only this configuration file'
            cand --json 'Print JSON: handle, token and times'
            cand -v 'Say why a job did not start; -vv: everything'
            cand --verbose 'Say why a job did not start; -vv: everything'
            cand -q 'Print only errors'
            cand --quiet 'Print only errors'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;release'= {
            cand --exit-code 'Exit code for the history'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --history-keep 'Number of runs to keep [1000]'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;extend'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --force 'Do not ask about a NAME'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;verify'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;check'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --json 'Print JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;prove'= {
            cand --for 'Try for DURATION [10s]'
            cand --clients 'Have N connections at most, from 2 to 64 [8]'
            cand --seed 'Decide as the report with this seed did [random]'
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand --json 'Print JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;init'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;schema'= {
            cand --backend 'Database or file with the locks'
            cand --backend-file 'Read that URL from FILE'
            cand --backend-timeout 'How long to try the backend [10s]'
            cand --config 'Read only this configuration file'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'shedlock;help'= {
            cand completions 'Print the completions for a shell'
            cand man 'Show a manual page on a terminal, or print it for man(1)'
            cand run 'Run a command under a lock'
            cand status 'Show who holds which lock, and how the last runs ended'
            cand history 'Show past runs, as a table or a picture'
            cand unlock 'Free a held lock'
            cand pause 'Keep every host from running a job until it is resumed'
            cand resume 'End a pause'
            cand forget 'Remove locks that are no longer used, with their history'
            cand acquire 'Take a lock for a script, and print the handle to release it'
            cand release 'Release a lock that `acquire` took'
            cand extend 'Give a lock and its job more time'
            cand verify 'Check before a dangerous step that the lock is still held'
            cand check 'Test whether this host can lock, and show what is in the way'
            cand prove 'Try whether this backend keeps the rules of a lock'
            cand init 'Create the tables or the file that the backend needs'
            cand schema 'Print the statements that create what a backend needs'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'shedlock;help;completions'= {
        }
        &'shedlock;help;man'= {
        }
        &'shedlock;help;run'= {
        }
        &'shedlock;help;status'= {
        }
        &'shedlock;help;history'= {
        }
        &'shedlock;help;unlock'= {
        }
        &'shedlock;help;pause'= {
        }
        &'shedlock;help;resume'= {
        }
        &'shedlock;help;forget'= {
        }
        &'shedlock;help;acquire'= {
        }
        &'shedlock;help;release'= {
        }
        &'shedlock;help;extend'= {
        }
        &'shedlock;help;verify'= {
        }
        &'shedlock;help;check'= {
        }
        &'shedlock;help;prove'= {
        }
        &'shedlock;help;init'= {
        }
        &'shedlock;help;schema'= {
        }
        &'shedlock;help;help'= {
        }
    ]
    $completions[$command]
}
