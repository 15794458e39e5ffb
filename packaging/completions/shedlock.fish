function __fish_shedlock_names
    set -l beginning (string unescape -- (string replace -r -- '^--name=' '' (commandline -ct)))
    command shedlock __names "$beginning" (commandline -opc) 2>/dev/null
end

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_shedlock_global_optspecs
    string join \n h/help V/version
end

function __fish_shedlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_shedlock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_shedlock_using_subcommand
    set -l cmd (__fish_shedlock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c shedlock -n "__fish_shedlock_needs_command" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_needs_command" -s V -l version -d 'Print version'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "completions" -d 'Print the completions for a shell'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "man" -d 'Print a manual page for man(1)'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "status" -d 'Show locks: who holds them, since when and until when, and how the last run ended'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "history" -d 'Show past runs, newest first, and those that never came back'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "unlock" -d 'Free a held lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "forget" -d 'Remove locks that are no longer used, with their history'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "acquire" -d 'Take a lock for a script that cannot be wrapped, and print the handle to release it'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "release" -d 'Release a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "extend" -d 'Keep a lock longer: restart its at-most'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "verify" -d 'Check before a dangerous step that a lock is still ours'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "check" -d 'Test whether this host can use the backend, and show what is in the way'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "init" -d 'Create the tables or the file that the backend needs; running it again does no harm'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "schema" -d 'Print the statements that create what a backend needs, without contacting it'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shedlock -n "__fish_shedlock_using_subcommand completions" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand man" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l name -d 'The name of the lock' -r -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-most -d 'The longest time that the lock may be held, at least 1s' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-least -d 'Keep the lock for at least DURATION after it was taken, even if the job ends sooner, so that another start for the same firing finds it held [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l lease -d 'Take the lock only for DURATION, at least 1s, and renew it every third of that while the job lives, never past --at-most [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l every -d 'Run at most once per DURATION, give or take a tenth [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-failure -d 'What to do with the lock when the job failed [default: at-least]' -r -f -a "at-least\t''
release\t''
hold\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l history-keep -d 'Keep the last N runs of the lock in the backend\'s history [default: 1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l success-codes -d 'The job\'s exit codes that count as success [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s w -l wait -d 'Wait up to DURATION, or `forever`, for a held lock [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l splay -d 'Sleep first, for a random time up to DURATION [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit with N when another owner holds the lock and the job is not run [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-expiry -d 'What to do when --at-most is used up while the job runs [default: kill]' -r -f -a "kill\t''
extend\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-lost -d 'What to do when the lock is lost, or could not be renewed in time [default: kill]' -r -f -a "kill\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l wait-for -d 'Treat the job as ended when the command has ended, when its whole process group has, or when all its descendants have, daemons included [default: child]' -r -f -a "child\t''
group\t''
tree\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s s -l signal -d 'Send SIGNAL first when stopping the job [default: TERM]' -r -f -a "TERM\t''
INT\t''
QUIT\t''
HUP\t''
USR1\t''
USR2\t''
KILL\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s k -l kill-after -d 'Send SIGKILL this long after the first signal [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l stop-timeout -d 'Kill the job if it is still running DURATION after shedlock got a HUP, INT, QUIT or TERM and passed it on [default: wait for the job]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify -d 'Run COMMAND with `/bin/sh -c` after a run that --notify-on names, when the lock has been given back [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify-on -d 'The events that --notify tells of [default: failure,expired,lost,error]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify-timeout -d 'Kill COMMAND and its process group if it is still running after DURATION, at least 1s [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-backend-error -d 'What to do when the backend cannot be asked [default: fail]' -r -f -a "fail\t''
skip\t''
run\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l log-format -d 'Print one line of text, or one JSON object, for each event [default: text]' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l metrics-dir -d 'Write metrics about the last runs of the job on this host to shedlock-NAME.prom in the directory DIR, for the textfile collector of Prometheus\' node_exporter [default: off]' -r -f -a "(__fish_complete_directories)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l foreground -d 'Run the job in shedlock\'s process group'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l new-group -d 'Run the job in its own process group'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l no-die-with-shedlock -d 'Let the command live on when shedlock is killed with SIGKILL'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l dry-run -d 'Print every setting and where it comes from, the backend, and what a run would do and when, and exit'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s v -l verbose -d 'Print more on stderr'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s q -l quiet -d 'Print only errors'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l max-age -d 'For a monitor [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l json -d 'Print JSON instead of a table, with the fields described in shedlock-json(5) and times in UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l local -d 'Show times in this process\'s time zone (TZ, or the system\'s) instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l exit-code -d 'Exit with 1 if any of the locks is held, kept, paused or unknown to the backend'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l prometheus -d 'Print the locks and their last runs as metrics in the text format of Prometheus'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l watch -d 'Refresh the table every two seconds, until interrupted'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l limit -d 'Show the newest N runs [default: 50; all with --since and in pictures]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l since -d 'Show runs that had not ended before TIME' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l svg -d 'Write that picture to FILE as SVG' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l html -d 'Write a page to FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l by -d 'Draw one line for each job, or for each host [default: job; host if a NAME is given]' -r -f -a "job\t''
host\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l json -d 'Print JSON instead of a table, with the fields described in shedlock-json(5) and times in UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l local -d 'Show times in this process\'s time zone (TZ, or the system\'s) instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l timeline -d 'Draw the runs as bars over time, one line for each job or host'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l force -d 'Do not ask'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l for -d 'End the pause after DURATION [default: until resumed]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l reason -d 'The reason that others see' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l wait -d 'If the job is running, wait up to DURATION, or `forever`, for its end [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l force -d 'Remove also a lock whose last holder was not shedlock, such as a Java application, which must not be running'
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l name -d 'The name of the lock' -r -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-most -d 'The longest time that the lock is held, at least 1s' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-least -d 'Keep the lock for at least DURATION after it was taken, even if it is released sooner [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l history-keep -d 'Keep the last N runs of the lock in the backend\'s history [default: 1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s w -l wait -d 'Wait up to DURATION, or `forever`, for a held lock [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s E -l conflict-exit-code -d 'Exit with N when another owner holds the lock [default: 1]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l on-backend-error -d 'What to do when the backend cannot be asked [default: fail]' -r -f -a "fail\t''
skip\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l log-format -d 'Print one line of text, or one JSON object, for each event [default: text]' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l json -d 'Print a JSON object with the handle, the token and the times, described in shedlock-json(5)'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s v -l verbose -d 'Print more on stderr'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s q -l quiet -d 'Print only errors'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l exit-code -d 'The exit code of the work under the lock, for the history [default: a success without a code]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l history-keep -d 'Keep the last N runs of the lock in the backend\'s history [default: 1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l json -d 'Print JSON'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-file -d 'Read the backend\'s URL from FILE, for example a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-timeout -d 'Give up if the backend cannot be reached within DURATION [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "completions" -d 'Print the completions for a shell'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "man" -d 'Print a manual page for man(1)'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "status" -d 'Show locks: who holds them, since when and until when, and how the last run ended'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "history" -d 'Show past runs, newest first, and those that never came back'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "unlock" -d 'Free a held lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "forget" -d 'Remove locks that are no longer used, with their history'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "acquire" -d 'Take a lock for a script that cannot be wrapped, and print the handle to release it'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "release" -d 'Release a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "extend" -d 'Keep a lock longer: restart its at-most'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "verify" -d 'Check before a dangerous step that a lock is still ours'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "check" -d 'Test whether this host can use the backend, and show what is in the way'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "init" -d 'Create the tables or the file that the backend needs; running it again does no harm'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "schema" -d 'Print the statements that create what a backend needs, without contacting it'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check init schema help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -f -a "(__fish_shedlock_names)"
