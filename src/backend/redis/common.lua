-- The first part of every script: the right server, its clock, and times as text. scripts.rs joins the parts, and has the
-- table of their keys and arguments. The scripts use Lua 5.1 and Redis 6 only.
-- Gives the later parts: now, iso, parse, whole.

-- The server does not say which command of a script it does not know.
local function absent(command, why)
  return string.find(why, 'nknown', 1, true) and redis.error_reply("ERR unknown command '" .. command .. "' in a script")
end

-- Changes nothing, but fails on a replica: a replica may be behind, and must not decide who holds a lock. A server
-- without memory must still release locks, and WRONGTYPE comes from a master only.
local allowed = redis.pcall('SETRANGE', KEYS[1], 0, '')
if type(allowed) == 'table' and allowed.err and not string.find(allowed.err, 'OOM', 1, true)
  and not string.find(allowed.err, 'WRONGTYPE', 1, true) then
  return absent('SETRANGE', allowed.err) or allowed
end

local clock = redis.pcall('TIME')
if clock.err then
  return absent('TIME', clock.err) or clock
end
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Days since 1970-01-01 and back, in years that begin in March, so that a leap day is a year's last.
local function days(year, month, day)
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local in_era = year - era * 400
  local in_year = math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return era * 146097 + in_era * 365 + math.floor(in_era / 4) - math.floor(in_era / 100) + in_year - 719468
end

local function date(days)
  days = days + 719468
  local era = math.floor(days / 146097)
  local in_era = days - era * 146097
  local year = math.floor((in_era - math.floor(in_era / 1460) + math.floor(in_era / 36524) - math.floor(in_era / 146096)) / 365)
  local in_year = in_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * in_year + 2) / 153)
  local day = in_year - math.floor((153 * from_march + 2) / 5) + 1
  local month = (from_march + 2) % 12 + 1
  year = year + era * 400
  if month <= 2 then year = year + 1 end
  return year, month, day
end

-- Milliseconds since 1970 as 2026-01-31T18:00:00.000Z and back; nil for any other form.
local function iso(ms)
  local year, month, day = date(math.floor(ms / 86400000))
  local seconds = math.floor(ms / 1000) % 86400
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, ms % 1000)
end

local function parse(text)
  local form = '^(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d)%.(%d%d%d)Z$'
  local year, month, day, hour, minute, second, ms = string.match(text, form)
  if not year then return nil end
  return ((days(tonumber(year), tonumber(month), tonumber(day)) * 24 + hour) * 60 + minute) * 60000 + second * 1000 + ms
end

-- Formats an integer; Redis would write a large number with an exponent.
local function whole(number)
  return string.format('%.0f', number)
end
