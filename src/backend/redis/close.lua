-- The last part of RELEASE, after release.lua, and of CLOSE, after history.lua: closes the caller's record. Uses:
-- common.lua's now, iso, whole; history.lua's history_key, recorded, was_held, try, find.
-- Answers was_held: 1 if the caller held the lock, 0 if it did not. CLOSE answers 0.
local records_to_keep = ARGV[4]
-- The end of the run for the record, as JSON without braces; empty if the acquisition led to no run.
local ending = ARGV[5]
if recorded then
  local record = find(-1) or find(0)
  if record and ending == '' then
    try('ZREM', history_key, record)
  elseif record and not string.find(record, '"ended_at":', 1, true) then
    -- This removes nothing, but on a server without memory a script may add only after another write of its own.
    try('ZREM', history_key, '')
    -- The set must not be empty in between: it would be deleted, and a node that its slot is leaving creates none.
    try('ZADD', history_key, string.match(record, '^{"token":(%d+),') or '0',
      string.sub(record, 1, -2) .. ',"ended_at":"' .. iso(now) .. '",'
      .. (was_held == 1 and '"released":true,' or '') .. ending .. '}')
    try('ZREM', history_key, record)
  end
  try('ZREMRANGEBYRANK', history_key, 0, whole(-1 - records_to_keep))
end
return was_held
