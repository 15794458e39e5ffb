-- Closes the owner's record. ARGV[4]: how many records are kept. ARGV[5]: what the record says of the end, as JSON without
-- braces; empty if no run came of the taking. Answers 1 if the owner gives back its lock, or 0 if the lock is not ours.
if recorded then
  local record = find(-1) or find(0)
  if record and ARGV[5] == '' then
    try('ZREM', KEYS[2], record)
  elseif record and not string.find(record, '"ended_at":', 1, true) then
    -- This removes nothing, but a server without memory lets a script add after another write of its own.
    try('ZREM', KEYS[2], '')
    -- A set that is empty in between would be gone, and a node that its slot is leaving makes none.
    try('ZADD', KEYS[2], string.match(record, '^{"token":(%d+),') or '0',
      string.sub(record, 1, -2) .. ',"ended_at":"' .. iso(now) .. '",'
      .. (kept == 1 and '"released":true,' or '') .. ARGV[5] .. '}')
    try('ZREM', KEYS[2], record)
  end
  try('ZREMRANGEBYRANK', KEYS[2], 0, whole(-1 - ARGV[4]))
end
return kept
