#!/usr/bin/perl
# The provider of wire://HOST:PORT/DIRECTORY: it carries what shedlock says to the example that lives at the other end of a
# connection, and what that says to shedlock. When the connection breaks, this is killed, as a provider may be at any byte.
use strict;
use warnings;
use IO::Socket::INET;

sub end { kill KILL => $$; sleep }

my ($first, $server) = ('');
until ($first =~ /\n/) {
    sysread(STDIN, $first, 65536, length $first) or exit;
}
if ($first =~ s{"wire://(?:[^/"]*@)?([^:/"]+):(\d+)/}{"example:/}) {
    $server = IO::Socket::INET->new(PeerAddr => $1, PeerPort => $2);
}
if (!$server) {
    my $why = $! =~ tr/A-Z"\\/a-z/dr;
    syswrite STDOUT, qq({"error":"no connection: $why","class":"transient","sent":false,"hint":null}\n);
    1 while sysread STDIN, $first, 65536;
    exit;
}
my %way = (fileno STDIN, [\*STDIN, $server], fileno $server, [$server, \*STDOUT]);
my $bytes = $first;
syswrite $server, $bytes;
while (1) {
    my $ready = '';
    vec($ready, $_, 1) = 1 for keys %way;
    select($ready, undef, undef, undef) > 0 or next;
    for (grep { vec $ready, $_, 1 } keys %way) {
        my ($from, $to) = @{$way{$_}};
        my $length = sysread $from, $bytes, 1 << 20;
        $from == $server ? end() : exit unless $length;
        for (my $done = 0; $done < $length;) {
            $done += syswrite($to, $bytes, $length - $done, $done) // end();
        }
    }
}
