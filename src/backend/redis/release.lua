-- Releases the lock. ARGV[2]: the owner, marked as ended. ARGV[3]: the milliseconds after the taking that the lock
-- stays held. KEYS[3], if given: a mark of this owner. 1 makes void a taking that is still on its way; 2 says that
-- the lock was released, if no record says so. The mark outlives every packet that may still be on its way. ARGV[6]:
-- the mark to leave, if any.
if value and owner == ARGV[2] then
  kept = 1
elseif owner == ARGV[1] then
  kept = 1
  -- At most that long from now, because the clock may have been set back after the taking.
  local rest = math.min(parse(added) or now, now) + ARGV[3] - now
  if rest > 0 then
    -- A server without memory refuses a script's first write if that one may need memory, but no later write.
    redis.call('PEXPIRE', KEYS[1], whole(rest))
    -- It counts as taken now if the clock was ahead, or it would not stay held at all.
    redis.call('SET', KEYS[1], 'ADDED:' .. (is_ahead and iso(now) or added) .. '@' .. ARGV[2], 'PX', whole(rest))
  else
    redis.call('DEL', KEYS[1])
  end
end
if KEYS[3] and not value and try('GET', KEYS[3]) == '2' then
  kept = 1
elseif KEYS[3] and (ARGV[6] == '1' or ARGV[6] == '2' and kept == 1 and not (find(-1) or find(0))) then
  try('SET', KEYS[3], ARGV[6], 'PX', 3600000)
end
-- An earlier release has deleted the key: a command's by the handle, or this one's, whose answer was lost.
if not value and recorded and string.find(find(-1) or find(0) or '', ',"released":true,', 1, true) then
  kept = 1
end
