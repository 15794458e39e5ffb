-- ARGV[2]: the owner marked as ended. ARGV[3]: for how long after the taking the lock stays held, in milliseconds.
-- KEYS[3], if it is there: a mark of this owner, 1 that a taking which is still on its way is void, or 2 that the lock was given
-- back, where no record says so. It outlives whatever a network may still carry. ARGV[6]: the mark to leave, if any.
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
if KEYS[3] and not value and try('GET', KEYS[3]) == '2' then
  kept = 1
elseif KEYS[3] and (ARGV[6] == '1' or ARGV[6] == '2' and kept == 1 and not (find(-1) or find(0))) then
  try('SET', KEYS[3], ARGV[6], 'PX', 3600000)
end
-- A lock that was given back before has no key any more: by its handle, or by a release whose answer was lost.
if not value and recorded and string.find(find(-1) or find(0) or '', ',"released":true,', 1, true) then
  kept = 1
end
