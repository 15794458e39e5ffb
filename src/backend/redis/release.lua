-- A part of RELEASE, after common.lua, lock.lua and history.lua, before close.lua, which answers. Uses: common.lua's now, iso,
-- parse, whole; lock.lua's lock_key, caller, value, added, owner, is_ahead; history.lua's recorded, try, find.
-- Sets history.lua's was_held.
-- The caller's mark, if the call has its key: 1 makes void an acquisition that is still on its way; 2 says that the lock
-- was released, if no record says so. The mark outlives every packet that may still be on its way.
local mark_key = KEYS[3]
local mark = ARGV[6]
-- The caller, marked as ended: the owner of a lock that stays held after its run.
local ended = ARGV[2]
-- The milliseconds after the acquisition that the lock stays held.
local hold_ms = ARGV[3]
if value and owner == ended then
  was_held = 1
elseif owner == caller then
  was_held = 1
  -- At most that long from now, because the clock may have been set back after the acquisition.
  local rest = math.min(parse(added) or now, now) + hold_ms - now
  if rest > 0 then
    -- A server without memory refuses a script's first write if that one may need memory, but no later write.
    redis.call('PEXPIRE', lock_key, whole(rest))
    -- The lock counts as acquired now if the clock was ahead, or it would not stay held at all.
    redis.call('SET', lock_key, 'ADDED:' .. (is_ahead and iso(now) or added) .. '@' .. ended, 'PX', whole(rest))
  else
    redis.call('DEL', lock_key)
  end
end
if mark_key and not value and try('GET', mark_key) == '2' then
  was_held = 1
elseif mark_key and (mark == '1' or mark == '2' and was_held == 1 and not (find(-1) or find(0))) then
  try('SET', mark_key, mark, 'PX', 3600000)
end
-- An earlier release has deleted the key: a command's by the handle, or this one's, whose answer was lost.
if not value and recorded and string.find(find(-1) or find(0) or '', ',"released":true,', 1, true) then
  was_held = 1
end
