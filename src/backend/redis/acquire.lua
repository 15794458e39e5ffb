-- The last part of ACQUIRE, after lock.lua and history.lua. Uses: common.lua's now, iso, whole; all of lock.lua and
-- history.lua.
-- Answers {1, now, token, failure}, where a token of 0 means none, {0, now, milliseconds left, value}, or {2} for an
-- acquisition that was undone and arrives late.
local token_key, mark_key = KEYS[3], KEYS[4]
local lease_ms = ARGV[2]
-- 0 for no record, 1 for one, 2 if an earlier acquisition may have left one; followed by the lock's name, for the record.
local record_and_name = ARGV[3]
if value and owner ~= caller and not is_over then
  local left = redis.call('PTTL', lock_key)
  -- The lock begins anew, and ends when the time that it was acquired for has passed once more. An end before its beginning was
  -- set after the acquisition.
  if is_wrong(left) and left > ahead then
    left = left - ahead
    value = 'ADDED:' .. iso(now) .. '@' .. owner
    -- A server without memory refuses a script's first write if that one may need memory, but no later write.
    redis.call('PEXPIRE', lock_key, whole(left))
    redis.call('SET', lock_key, value, 'PX', whole(left))
  end
  return {0, now, left, value}
end
if mark_key and try('GET', mark_key) then
  return {2}
end
redis.call('SET', lock_key, 'ADDED:' .. iso(now) .. '@' .. caller, 'PX', lease_ms)
if not recorded then
  return {1, now, 0, ''}
end
local last = try('GET', token_key) or '0'
-- Numbers are exact up to fifteen digits.
if #last > 15 or not string.find(last, '^%d+$') then
  failure = failure or 'the last token is no number'
end
if failure then
  return {1, now, 0, failure}
end
-- The clock makes tokens grow even after a flush.
local token = whole(math.max(tonumber(last) + 1, now))
local record, name = string.sub(record_and_name, 1, 1), string.sub(record_and_name, 2)
if record ~= '0' then
  -- An acquisition repeated after a lost answer has a record already, even if others have run meanwhile.
  local earlier = find(-1) or record == '2' and find(0)
  try('ZADD', history_key, token, '{"token":' .. token .. ',"name":' .. cjson.encode(name)
    .. ',"owner":' .. cjson.encode(caller) .. ',"host":' .. cjson.encode(string.match(caller, '^[^:]*'))
    .. ',"started_at":"' .. iso(now) .. '"}')
  if earlier then
    try('ZREM', history_key, earlier)
  end
end
if not failure then
  try('SET', token_key, token)
end
return {1, now, failure and 0 or tonumber(token), failure or ''}
