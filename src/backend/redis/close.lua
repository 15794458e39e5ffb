-- Closes the owner's record. ARGV[4]: the number of records to keep. ARGV[5]: the end of the run for the record, as
-- JSON without braces; empty if the taking led to no run. Answers 1 if the owner releases its lock, or 0 if the lock
-- is not the owner's.
if recorded then
  local record = find(-1) or find(0)
  if record and ARGV[5] == '' then
    try('ZREM', KEYS[2], record)
  elseif record and not string.find(record, '"ended_at":', 1, true) then
    -- This removes nothing, but on a server without memory a script may add only after another write of its own.
    try('ZREM', KEYS[2], '')
    -- The set must not be empty in between: it would be deleted, and a node that its slot is leaving creates none.
    try('ZADD', KEYS[2], string.match(record, '^{"token":(%d+),') or '0',
      string.sub(record, 1, -2) .. ',"ended_at":"' .. iso(now) .. '",'
      .. (kept == 1 and '"released":true,' or '') .. ARGV[5] .. '}')
    try('ZREM', KEYS[2], record)
  end
  try('ZREMRANGEBYRANK', KEYS[2], 0, whole(-1 - ARGV[4]))
end
return kept
