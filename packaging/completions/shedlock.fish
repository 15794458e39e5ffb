function __fish_shedlock_names
    set -l beginning (string unescape -- (string replace -r -- '^--name=' '' (commandline -ct)))
    command shedlock __names "$beginning" (commandline -opc) 2>/dev/null
end

function __fish_shedlock_backends
    command shedlock __backends (string unescape -- (string replace -r -- '^--backend=' '' (commandline -ct))) 2>/dev/null
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
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "man" -d 'Show a manual page on a terminal, or print it for man(1)'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "status" -d 'Show who holds which lock, and how the last runs ended'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "history" -d 'Show past runs, as a table or a picture'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "unlock" -d 'Free a held lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "forget" -d 'Remove locks that are no longer used, with their history'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "acquire" -d 'Take a lock for a script, and print the handle to release it'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "release" -d 'Release a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "extend" -d 'Give a lock and its job more time'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "verify" -d 'Check before a dangerous step that the lock is still held'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "check" -d 'Test whether this host can lock, and show what is in the way'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "prove" -d 'Try whether this backend keeps the rules of a lock'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "init" -d 'Create the tables or the file that the backend needs'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "schema" -d 'Print the statements that create what a backend needs'
complete -c shedlock -n "__fish_shedlock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shedlock -n "__fish_shedlock_using_subcommand completions" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand man" -s h -l help -d 'Print help'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l name -d 'Name of the lock (required)' -r -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit code if the lock is held' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l history-keep -d 'Number of runs to keep [1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-most -d 'Time limit of lock and job (required)' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l every -d 'Run at most once per DURATION' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l at-least -d 'Keep the lock this long even after a short job' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l lease -d 'If the host dies, free the lock after DURATION' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s w -l wait -d 'Wait up to DURATION for a held lock' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l splay -d 'First sleep for a random time up to DURATION' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-expiry -d 'When --at-most is used up' -r -f -a "kill\t''
extend\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-lost -d 'When the lock is lost' -r -f -a "kill\t''
ignore\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-failure -d 'What happens to a failed job\'s lock' -r -f -a "at-least\t''
release\t''
hold\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s s -l signal -d 'First signal to stop the job [TERM]' -r -f -a "TERM\t''
INT\t''
QUIT\t''
HUP\t''
USR1\t''
USR2\t''
KILL\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s k -l kill-after -d 'Send SIGKILL this much later [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l stop-timeout -d 'Kill a job that does not stop' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l wait-for -d 'What has to end before the lock is released' -r -f -a "child\t''
group\t''
tree\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l success-codes -d 'Exit codes of a success' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l on-backend-error -d 'When the backend does not answer' -r -f -a "fail\t''
skip\t''
run\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l log-format -d 'Print each event as a line of text or JSON' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify -d 'Run COMMAND when a run has failed' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify-on -d 'Events that --notify reports [failure,expired,lost,error]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l notify-timeout -d 'Kill that COMMAND after DURATION [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l metrics-dir -d 'Write metrics for Prometheus' -r -f -a "(__fish_complete_directories)"
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s h -l help -d 'Print this overview; --help prints all options'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l foreground -d 'Run the job in shedlock\'s process group'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l new-group -d 'Run the job in its own process group'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l no-die-with-shedlock -d 'Let the command outlive shedlock'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s v -l verbose -d 'Say why a job did not start; -vv: everything'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -s q -l quiet -d 'Print only errors'
complete -c shedlock -n "__fish_shedlock_using_subcommand run" -l dry-run -d 'Show what would happen and when, and exit'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l max-age -d 'Exit with 1 if a success is too old' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l json -d 'Print JSON instead of a table'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l local -d 'Show times in local time instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l exit-code -d 'Exit with 1 unless all are free'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l prometheus -d 'Print metrics for Prometheus'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -l watch -d 'Refresh every two seconds until interrupted'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l limit -d 'Show the newest N runs' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l since -d 'Show runs that ended later than TIME' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l svg -d 'Write that picture as SVG to FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l html -d 'Write an HTML page to FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l by -d 'Draw one line per job or host' -r -f -a "job\t''
host\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l json -d 'Print JSON instead of a table'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l local -d 'Show times in local time instead of UTC'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -l timeline -d 'Draw the runs as bars over time'
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -l force -d 'Do not ask'
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l for -d 'End the pause after DURATION' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l reason -d 'Say why' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l wait -d 'Wait this long for a running job' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -l force -d 'Remove locks of other programs too'
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l name -d 'Name of the lock (required)' -r -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s E -l conflict-exit-code -d 'Exit code if the lock is held [1]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l history-keep -d 'Number of runs to keep [1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-most -d 'Time limit of the lock (required)' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l at-least -d 'Keep the lock this long even if released sooner' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s w -l wait -d 'Wait up to DURATION for a held lock' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l on-backend-error -d 'When the backend does not answer' -r -f -a "fail\t''
skip\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l log-format -d 'Print each event as a line of text or JSON' -r -f -a "text\t''
json\t''"
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -l json -d 'Print JSON: handle, token and times'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s v -l verbose -d 'Say why a job did not start; -vv: everything'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s q -l quiet -d 'Print only errors'
complete -c shedlock -n "__fish_shedlock_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l exit-code -d 'Exit code for the history' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l history-keep -d 'Number of runs to keep [1000]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -l force -d 'Do not ask about a NAME'
complete -c shedlock -n "__fish_shedlock_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -l json -d 'Print JSON'
complete -c shedlock -n "__fish_shedlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l for -d 'Try for DURATION [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l clients -d 'Have N connections at most, from 2 to 64 [8]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l seed -d 'Decide as the report with this seed did [random]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -l json -d 'Print JSON'
complete -c shedlock -n "__fish_shedlock_using_subcommand prove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend -d 'Database or file with the locks' -r -f -a "(__fish_shedlock_backends)"
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-file -d 'Read that URL from FILE' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l backend-timeout -d 'How long to try the backend [10s]' -r -f
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -l config -d 'Read only this configuration file' -r -F
complete -c shedlock -n "__fish_shedlock_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "completions" -d 'Print the completions for a shell'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "man" -d 'Show a manual page on a terminal, or print it for man(1)'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "run" -d 'Run a command under a lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "status" -d 'Show who holds which lock, and how the last runs ended'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "history" -d 'Show past runs, as a table or a picture'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "unlock" -d 'Free a held lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "pause" -d 'Keep every host from running a job until it is resumed'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "resume" -d 'End a pause'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "forget" -d 'Remove locks that are no longer used, with their history'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "acquire" -d 'Take a lock for a script, and print the handle to release it'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "release" -d 'Release a lock that `acquire` took'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "extend" -d 'Give a lock and its job more time'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "verify" -d 'Check before a dangerous step that the lock is still held'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "check" -d 'Test whether this host can lock, and show what is in the way'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "prove" -d 'Try whether this backend keeps the rules of a lock'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "init" -d 'Create the tables or the file that the backend needs'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "schema" -d 'Print the statements that create what a backend needs'
complete -c shedlock -n "__fish_shedlock_using_subcommand help; and not __fish_seen_subcommand_from completions man run status history unlock pause resume forget acquire release extend verify check prove init schema help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c shedlock -n "__fish_shedlock_using_subcommand status" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand history" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand unlock" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand pause" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand resume" -f -a "(__fish_shedlock_names)"
complete -c shedlock -n "__fish_shedlock_using_subcommand forget" -f -a "(__fish_shedlock_names)"
