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
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "man" -d 'Print a manual page, in the form that man(1) reads'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "status" -d 'Show locks: who holds them, since when and until when, and how the last run ended'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "history" -d 'Show past runs, newest first, and those that never came back'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "unlock" -d 'Free a lock that somebody holds'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "acquire" -d 'Take a lock for a script that cannot be wrapped, and print the handle for its release'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "release" -d 'Give back a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "extend" -d 'Keep a lock for longer: at-most counts from now on'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "verify" -d 'Ask whether a lock is still ours, before a dangerous step'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "check" -d 'Find out whether this host can lock here, and what is in the way'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "init" -d 'Make what the backend needs, such as its tables; doing it again does no harm'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "schema" -d 'Print the statements that make what a backend needs, without reaching for it'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shedlock -n "__fish_shedlock_using_subcommand completions" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand man" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l name -d 'The lock to run under' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-most -d 'The longest the lock may be held, at least 1s' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-least -d 'The shortest the lock stays held, counted from when it was taken, even if the job ends sooner, so that another start for the same firing finds it held [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l lease -d 'Take the lock only for DURATION, at least 1s, and renew it every third of that while the job lives, never past --at-most [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l every -d 'Run at most once per DURATION [default: off]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-failure -d 'When the job failed [default: at-least]' -r -f -a "at-least\t''
release\t''
hold\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l history-keep -d 'How many of the last runs of the lock are kept in the backend\'s history [default: 100]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l success-codes -d 'The exit codes of the job that count as success [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s w -l wait -d 'Wait up to DURATION for a held lock, or `forever` [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l splay -d 'First sleep for a random time of up to DURATION [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s E -l conflict-exit-code -d 'The exit code when the lock is held by another and the job is not run [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-expiry -d 'When the job still runs and --at-most is used up [default: kill]' -r -f -a "kill\t''
extend\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-lost -d 'When the backend says that the lock is no longer ours, or it could not be renewed in time [default: kill]' -r -f -a "kill\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l wait-for -d 'The job has ended when the command has, when nothing is left of its process group, or when nothing is left of all that it started, daemons too [default: child]' -r -f -a "child\t''
group\t''
tree\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s s -l signal -d 'What to send first when the job is stopped [default: TERM]' -r -f -a "TERM\t''
INT\t''
QUIT\t''
HUP\t''
USR1\t''
USR2\t''
KILL\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s k -l kill-after -d 'Send SIGKILL so long after the first signal [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l stop-timeout -d 'After a HUP, INT, QUIT or TERM that was sent to shedlock was passed on, kill the job after DURATION [default: wait for the job]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-backend-error -d 'When the backend cannot be asked [default: fail]' -r -f -a "fail\t''
skip\t''
run\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l log-format -d 'One line, or one JSON object, per event [default: text]' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l metrics-dir -d 'Write what became of the last runs of the job on this host to shedlock-NAME.prom in the directory DIR, for the textfile collector of Prometheus\' node_exporter [default: off]' -r -f -a "(__fish_complete_directories)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l foreground -d 'Run the job in shedlock\'s own process group'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l new-group -d 'Run the job in a process group of its own'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l no-die-with-shedlock -d 'Let the command live on when shedlock itself is killed with SIGKILL'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s v -l verbose -d 'Tell more on stderr'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s q -l quiet -d 'Tell errors only'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l json -d 'Print JSON with the fields that shedlock-json(5) describes instead of a table'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l local -d 'Show times in the time zone of this process (TZ, or the system\'s) instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l exit-code -d 'Exit with 1 if any of the locks is held, kept, paused or unknown'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l watch -d 'Show it again every two seconds, until interrupted'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l limit -d 'Show the newest N runs [default: 50; with --since, --timeline or --svg all that are kept]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l since -d 'Show the runs that had not ended before TIME' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l svg -d 'Write that picture to FILE as SVG' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l by -d 'What a line of the picture stands for [default: job; host if a NAME is given]' -r -f -a "job\t''
host\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l json -d 'Print JSON with the fields that shedlock-json(5) describes instead of a table'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l local -d 'Show times in the time zone of this process (TZ, or the system\'s) instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l timeline -d 'Draw the runs as bars over time, a line for each job or host'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l force -d 'Do not ask'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l for -d 'End the pause by itself after DURATION [default: until resumed]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l reason -d 'Why, for those who wonder' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l wait -d 'If the job is running, wait up to DURATION, or `forever`, for its end [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l name -d 'The lock to run under' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-most -d 'The longest the lock is held, at least 1s' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-least -d 'The shortest the lock stays held, counted from when it was taken, even if it is given back sooner [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l history-keep -d 'How many of the last runs of the lock are kept in the backend\'s history [default: 100]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s w -l wait -d 'Wait up to DURATION for a held lock, or `forever` [default: 0]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s E -l conflict-exit-code -d 'The exit code when the lock is held by another [default: 1]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l on-backend-error -d 'When the backend cannot be asked [default: fail]' -r -f -a "fail\t''
skip\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l log-format -d 'One line, or one JSON object, per event [default: text]' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s v -l verbose -d 'Tell more on stderr'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s q -l quiet -d 'Tell errors only'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l exit-code -d 'How the work under the lock ended, for the history [default: success without a code]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l history-keep -d 'How many of the last runs of the lock are kept in the backend\'s history [default: 100]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l json -d 'Print JSON, an array with an object for each line'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend -d 'Where locks live' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-file -d 'Read the backend\'s URL from FILE, such as a mounted secret' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-timeout -d 'The longest to try to reach the backend before that is an error [default: 10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l config -d 'Read only this configuration file [default: /etc/shedlock/config.toml, then $XDG_CONFIG_HOME/shedlock/config.toml]' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "completions" -d 'Print the completions for a shell'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "man" -d 'Print a manual page, in the form that man(1) reads'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "status" -d 'Show locks: who holds them, since when and until when, and how the last run ended'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "history" -d 'Show past runs, newest first, and those that never came back'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "unlock" -d 'Free a lock that somebody holds'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "acquire" -d 'Take a lock for a script that cannot be wrapped, and print the handle for its release'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "release" -d 'Give back a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "extend" -d 'Keep a lock for longer: at-most counts from now on'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "verify" -d 'Ask whether a lock is still ours, before a dangerous step'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "check" -d 'Find out whether this host can lock here, and what is in the way'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "init" -d 'Make what the backend needs, such as its tables; doing it again does no harm'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "schema" -d 'Print the statements that make what a backend needs, without reaching for it'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume acquire release extend verify check init schema help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
