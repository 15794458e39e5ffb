-- ARGV[2]: the owner marked as ended. ARGV[3]: for how long after the taking the lock stays held, in milliseconds.
-- ARGV[4]: how many records are kept. ARGV[5]: what the record says of the end, as JSON without braces; empty if no run
-- came of the taking. Answers 1, or 0 if the lock is not ours.
local kept = 0
if value and owner == ARGV[2] then
  kept = 1
elseif owner == ARGV[1] then
  kept = 1
  -- No longer than that from now on, since the clock may have been set back after the taking.
  local rest = math.min(parse(added) or now, now) + ARGV[3] - now
  if rest > 0 then
    -- A server without memory refuses a script's first write if it is one that could need some, but no later one.
    redis.call('PEXPIRE', KEYS[1], whole(rest))
    redis.call('SET', KEYS[1], 'ADDED:' .. added .. '@' .. ARGV[2], 'PX', whole(rest))
  else
    redis.call('DEL', KEYS[1])
  end
end
if recorded then
  local record = find(-1) or find(0)
  if record and ARGV[5] == '' then
    try('ZREM', KEYS[2], record)
  elseif record and not string.find(record, '"ended_at":', 1, true) then
    try('ZREM', KEYS[2], record)
    try('ZADD', KEYS[2], string.match(record, '^{"token":(%d+),') or '0',
      string.sub(record, 1, -2) .. ',"ended_at":"' .. iso(now) .. '",' .. ARGV[5] .. '}')
  end
  try('ZREMRANGEBYRANK', KEYS[2], 0, whole(-1 - ARGV[4]))
end
return kept
