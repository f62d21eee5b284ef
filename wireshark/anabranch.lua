-- Wireshark and tshark: the experimental chunks and parameters of Anabranch, the clear part of DTLS chunks, and SCTP over UDP (RFC 6951) on any port.
--
-- tshark -X lua_script:anabranch.lua -r FILE, or copy this file to Wireshark's folder for personal Lua plugins (Help > About > Folders).
-- crates/wire/src/chunk/experimental.rs describes the formats of the chunks, docs/PATHS.md those of the parameters (port pairs). The numbers of
-- the chunk types are preferences of the protocol "anabranch".

local experimental = Proto("anabranch", "Experimental SCTP chunks and parameters (Anabranch)")

local KINDS = {
    { key = "dtls", name = "DTLS", number = 65 },
    { key = "e_data", name = "E-DATA", number = 96 },
    { key = "coop_sack", name = "COOP-SACK", number = 97 },
    { key = "e_i_data", name = "E-I-DATA", number = 98 },
    { key = "selective_forward_tsn", name = "Selective FORWARD-TSN", number = 160 },
    { key = "extended_forward_tsn", name = "Extended FORWARD-TSN", number = 161 },
    { key = "forward_psn", name = "FORWARD-PSN", number = 224 },
}
for _, kind in ipairs(KINDS) do
    experimental.prefs[kind.key] = Pref.uint("Chunk type of " .. kind.name, kind.number, "A number from 15 to 254")
end

local PARAMETERS = {
    { key = "key_management", name = "DTLS Key Management", number = 0x8006 },
    { key = "port_pairs_supported", name = "Port Pairs Supported", number = 0x9A01 },
    { key = "known_keys", name = "Known Keys", number = 0x9A02 },
    { key = "repair_supported", name = "Repair Supported", number = 0x9A03 },
    { key = "pair", name = "Renew Pair", number = 0xDA01 },
    { key = "pair", name = "Delete Pair", number = 0xDA02 },
}

local POLICIES = {
    [0] = "on the path of the last arrival", [1] = "a copy on every path", [2] = "on the path of the last arrival",
    [3] = "on the path of the last arrival", [4] = "on the path with the best rank; this one has none",
    [5] = "on the path with the best rank; this one has rank 1", [6] = "on the path with the best rank; this one has rank 2",
    [7] = "on the path with the best rank; this one has rank 3",
}

local f = {
    chunk = ProtoField.string("anabranch.chunk", "Chunk"),
    parameter = ProtoField.string("anabranch.parameter", "Parameter"),
    correlation_id = ProtoField.uint32("anabranch.correlation_id", "Correlation ID"),
    pair = ProtoField.uint32("anabranch.pair", "Name of the pair: Correlation ID of its Add, 0 for the pair of set-up"),
    policy = ProtoField.uint8("anabranch.policy", "Acknowledge", base.DEC, POLICIES, 0xE0),
    immediate = ProtoField.bool("anabranch.i_bit", "I: acknowledge at once", 8, nil, 0x08),
    unordered = ProtoField.bool("anabranch.u_bit", "U: unordered", 8, nil, 0x04),
    repair = ProtoField.bool("anabranch.r_bit", "R: repairs fragments of its message", 8, nil, 0x10),
    beginning = ProtoField.bool("anabranch.b_bit", "B: first fragment", 8, nil, 0x02),
    ending = ProtoField.bool("anabranch.e_bit", "E: last fragment", 8, nil, 0x01),
    has_renegable = ProtoField.bool("anabranch.r_bit", "R: lists renegable TSNs", 8, nil, 0x01),
    path = ProtoField.uint8("anabranch.path", "Path (PID)"),
    psn = ProtoField.uint24("anabranch.psn", "Path sequence number (PSN)"),
    cum_psn = ProtoField.uint24("anabranch.cum_psn", "Cumulative PSN"),
    new_cum_psn = ProtoField.uint24("anabranch.new_cum_psn", "New cumulative PSN"),
    tsn = ProtoField.uint32("anabranch.tsn", "TSN"),
    stream = ProtoField.uint16("anabranch.stream", "Stream"),
    ssn = ProtoField.uint16("anabranch.ssn", "Stream sequence number"),
    mid = ProtoField.uint32("anabranch.mid", "Message identifier"),
    ppid = ProtoField.uint32("anabranch.ppid", "Payload protocol identifier"),
    fsn = ProtoField.uint32("anabranch.fsn", "Fragment sequence number"),
    payload = ProtoField.bytes("anabranch.payload", "User data"),
    timestamp = ProtoField.uint32("anabranch.timestamp", "Timestamp (ms)"),
    cumulative_tsn_ack = ProtoField.uint32("anabranch.cumulative_tsn_ack", "Cumulative TSN ack"),
    a_rwnd = ProtoField.uint32("anabranch.a_rwnd", "Advertised receiver window (a_rwnd)"),
    share = ProtoField.uint32("anabranch.share", "The path's share of the window"),
    gap_start = ProtoField.uint32("anabranch.gap_start", "Gap ack block: first PSN"),
    gap_end = ProtoField.uint32("anabranch.gap_end", "Gap ack block: last PSN"),
    duplicate = ProtoField.uint24("anabranch.duplicate", "Duplicate: PSN"),
    renegable_start = ProtoField.uint32("anabranch.renegable_start", "Renegable block: first TSN"),
    renegable_end = ProtoField.uint32("anabranch.renegable_end", "Renegable block: last TSN"),
    cumulative_tsn = ProtoField.uint32("anabranch.cumulative_tsn", "TSN before the first offset"),
    restart = ProtoField.bool("anabranch.dtls.r_bit", "R: keys for a restart", 8, nil, 0x01),
    epoch = ProtoField.uint8("anabranch.dtls.epoch", "The two lowest bits of the epoch", base.DEC, nil, 0x03),
    encrypted_number = ProtoField.uint16("anabranch.dtls.sequence", "Sequence number, encrypted", base.HEX),
    encrypted = ProtoField.bytes("anabranch.dtls.record", "Chunks, content type and tag, encrypted"),
    tie_breaker = ProtoField.uint32("anabranch.keys.tie_breaker", "Tie breaker", base.HEX),
    restarts = ProtoField.bool("anabranch.keys.r_bit", "R: restart supported", 8, nil, 0x04),
    server_role = ProtoField.bool("anabranch.keys.s_bit", "S: role of the server supported", 8, nil, 0x02),
    client_role = ProtoField.bool("anabranch.keys.c_bit", "C: role of the client supported", 8, nil, 0x01),
    method = ProtoField.uint8("anabranch.keys.method", "Key management method"),
    known_key = ProtoField.bytes("anabranch.known_key", "Hash of the INIT with a public key of the receiver"),
    skipped_start = ProtoField.uint32("anabranch.skipped_start", "Skipped block: first TSN"),
    skipped_end = ProtoField.uint32("anabranch.skipped_end", "Skipped block: last TSN"),
}
local all = {}
for _, field in pairs(f) do all[#all + 1] = field end
experimental.fields = all

local malformed = ProtoExpert.new("anabranch.malformed", "The lengths and counts of the chunk or parameter do not agree",
    expert.group.MALFORMED, expert.severity.ERROR)
local quoted = ProtoExpert.new("anabranch.quoted", "The ICMP message quotes only the beginning of the chunk or parameter",
    expert.group.PROTOCOL, expert.severity.NOTE)
experimental.experts = { malformed, quoted }

-- Reads a chunk or parameter from front to back. `take` returns nothing beyond its end, which ends its dissection.
local function reader(range)
    local at = 0
    return function(bytes)
        if at + bytes > range:len() then error("short", 0) end
        local part = range(at, bytes)
        at = at + bytes
        return part
    end, function() return range:len() - at end
end

local function transmission(tree, take, field)
    local word = take(4)
    tree:add(f.path, word(0, 1))
    return tree:add(field, word(1, 3))
end

-- DATA's fields after the path sequence number; with `interleaved` those of I-DATA.
local function data(tree, flags, take, left, interleaved)
    tree:add(f.policy, flags)
    if interleaved then tree:add(f.repair, flags) end
    tree:add(f.immediate, flags)
    tree:add(f.unordered, flags)
    tree:add(f.beginning, flags)
    tree:add(f.ending, flags)
    transmission(tree, take, f.psn)
    tree:add(f.tsn, take(4))
    tree:add(f.stream, take(2))
    if interleaved then
        take(2)
        tree:add(f.mid, take(4))
        local first = bit.band(flags:uint(), 2) ~= 0
        tree:add(first and f.ppid or f.fsn, take(4))
    else
        tree:add(f.ssn, take(2))
        tree:add(f.ppid, take(4))
    end
    tree:add(f.payload, take(left()))
end

local PSNS, TSNS = 0x1000000, 0x100000000

-- `count` blocks of offsets from `base`, a number that wraps at `numbers`.
local function blocks(tree, take, count, base, numbers, first, last)
    for _ = 1, count do
        local block = take(4)
        tree:add(first, block(0, 2), (base + block(0, 2):uint()) % numbers)
        tree:add(last, block(2, 2), (base + block(2, 2):uint()) % numbers)
    end
end

local DISSECT = {
    -- draft-ietf-tsvwg-sctp-dtls-chunk.
    dtls = function(tree, flags, take, left)
        tree:add(f.restart, flags)
        take(1)
        local form = take(1)
        if bit.band(form:uint(), 0xFC) ~= 0x28 then error("another form", 0) end
        tree:add(f.epoch, form)
        tree:add(f.encrypted_number, take(2))
        if left() < 16 then error("short", 0) end
        tree:add(f.encrypted, take(left()))
    end,
    key_management = function(tree, _, take, left)
        tree:add(f.tie_breaker, take(4))
        local flags = take(1)
        tree:add(f.restarts, flags)
        tree:add(f.server_role, flags)
        tree:add(f.client_role, flags)
        repeat tree:add(f.method, take(1)) until left() == 0
    end,
    port_pairs_supported = function() end,
    known_keys = function(tree, _, take, left)
        repeat tree:add(f.known_key, take(16)) until left() == 0
    end,
    repair_supported = function() end,
    pair = function(tree, _, take)
        tree:add(f.correlation_id, take(4))
        tree:add(f.pair, take(4))
    end,
    e_data = function(tree, flags, take, left) data(tree, flags, take, left, false) end,
    e_i_data = function(tree, flags, take, left) data(tree, flags, take, left, true) end,
    forward_psn = function(tree, _, take) transmission(tree, take, f.new_cum_psn) end,
    selective_forward_tsn = function(tree, _, take, left)
        tree:add(f.tsn, take(4))
        tree:add(f.stream, take(2))
        local short = take(2)
        if left() == 0 then tree:add(f.ssn, short) else tree:add(f.mid, take(4)) end
    end,
    extended_forward_tsn = function(tree, _, take, left)
        local cumulative = take(4)
        tree:add(f.cumulative_tsn, cumulative)
        blocks(tree, take, math.floor(left() / 4), cumulative:uint(), TSNS, f.skipped_start, f.skipped_end)
    end,
    coop_sack = function(tree, flags, take)
        tree:add(f.has_renegable, flags)
        tree:add(f.timestamp, take(4))
        local cumulative = take(4)
        tree:add(f.cumulative_tsn_ack, cumulative)
        tree:add(f.a_rwnd, take(4))
        local paths, duplicates = take(2):uint(), take(2):uint()
        for _ = 1, paths do
            local word = take(4)
            local path = tree:add(f.path, word(0, 1))
            path:add(f.cum_psn, word(1, 3))
            path:add(f.share, take(4))
            local count = take(2):uint()
            take(2)
            blocks(path, take, count, word(1, 3):uint(), PSNS, f.gap_start, f.gap_end)
        end
        for _ = 1, duplicates do transmission(tree, take, f.duplicate) end
        if bit.band(flags:uint(), 1) ~= 0 then
            local count = take(2):uint()
            take(2)
            blocks(tree, take, count, cumulative:uint(), TSNS, f.renegable_start, f.renegable_end)
        end
    end,
}

local chunk_types, parameter_types = Field.new("sctp.chunk_type"), Field.new("sctp.parameter_type")
local icmp, icmpv6 = Field.new("icmp.type"), Field.new("icmpv6.type")

-- Shows the chunk or parameter of this kind whose type tshark found. The length of both is at their third byte.
local function show(root, found, kind, field)
    -- Not the bytes of the frame: the offset counts in those that a dissector reassembled or decrypted, if one did.
    local source, at = found.source, found.offset
    if at + 4 > source:len() then return end
    local length = source(at + 2, 2):uint()
    local there = math.max(math.min(length, source:len() - at), 4)
    local tree = root:add(experimental, source(at, there), kind.name)
    tree:add(field, source(at, field == f.chunk and 1 or 2), kind.name)
    local take, left = reader(source(at, there))
    take(4)
    local whole = pcall(DISSECT[kind.key], tree, source(at + 1, 1), take, left)
    if (icmp() or icmpv6()) and there < length then
        tree:add_proto_expert_info(quoted)
    elseif not whole or left() > 0 or there < length then
        tree:add_proto_expert_info(malformed)
    end
end

function experimental.dissector(frame, pinfo, root)
    for _, found in ipairs({ chunk_types() }) do
        for _, kind in ipairs(KINDS) do
            if found.value == experimental.prefs[kind.key] then
                show(root, found, kind, f.chunk)
                pinfo.cols.info:append(" " .. kind.name)
            end
        end
    end
    for _, found in ipairs({ parameter_types() }) do
        for _, kind in ipairs(PARAMETERS) do
            if found.value == kind.number then show(root, found, kind, f.parameter) end
        end
    end
end

register_postdissector(experimental)

-- SCTP over UDP on any port: a common header, chunks that fill the datagram, and the checksum.

local over_udp = Proto("anabranch_udp", "SCTP over UDP on any port (Anabranch)")

local CRC32C = {}
for byte = 0, 255 do
    local rest = byte
    for _ = 1, 8 do
        local odd = bit.band(rest, 1) == 1
        rest = bit.rshift(rest, 1)
        if odd then rest = bit.bxor(rest, 0x82F63B78) end
    end
    CRC32C[byte] = rest
end

-- RFC 9260 Appendix A, with zeros in place of the checksum.
local function crc32c(bytes)
    local rest = bit.bnot(0)
    for index = 0, bytes:len() - 1 do
        local byte = (index >= 8 and index < 12) and 0 or bytes:get_index(index)
        rest = bit.bxor(bit.rshift(rest, 8), CRC32C[bit.band(bit.bxor(rest, byte), 0xFF)])
    end
    return bit.bnot(rest)
end

-- Whether chunks fill the datagram to its end (RFC 9260 §3.2). The padding of the last chunk may be missing.
local function chunks_fit(buffer)
    local at, length = 12, buffer:len()
    while at < length do
        if at + 4 > length then return false end
        local chunk = buffer(at + 2, 2):uint()
        if chunk < 4 or at + chunk > length then return false end
        at = at + chunk + (-chunk) % 4
    end
    return at - length < 4
end

-- The numbers of the chunk types that standards define (IANA's registry, RFC 8260, the NR-SACK draft).
local STANDARD = {}
for number = 0, 16 do STANDARD[number] = true end
for _, number in ipairs({ 64, 128, 129, 130, 132, 192, 193, 194 }) do STANDARD[number] = true end

-- Whether every chunk of a datagram that chunks fill has a known type.
local function types_known(buffer)
    local known = {}
    for _, kind in ipairs(KINDS) do known[experimental.prefs[kind.key]] = true end
    local at = 12
    while at < buffer:len() do
        local number = buffer(at, 1):uint()
        if not STANDARD[number] and not known[number] then return false end
        local chunk = buffer(at + 2, 2):uint()
        at = at + chunk + (-chunk) % 4
    end
    return true
end

over_udp:register_heuristic("udp", function(buffer, pinfo, root)
    if buffer:len() < 16 or not chunks_fit(buffer) then return false end
    if buffer:reported_len() ~= buffer:len() then return false end
    if buffer(0, 2):uint() == 0 or buffer(2, 2):uint() == 0 then return false end
    local checksum = bit.tobit(buffer(8, 4):le_uint())
    -- RFC 9653: zero is an acceptable checksum if both sides agreed; a tag of zero belongs to an INIT, which has a checksum. A record of
    -- DTLS may have zeros there too, so the types of the chunks must be known.
    local is_zero = checksum == 0 and buffer(4, 4):uint() ~= 0 and types_known(buffer)
    if not is_zero and checksum ~= crc32c(buffer:bytes()) then return false end
    Dissector.get("sctp"):call(buffer, pinfo, root)
    return true
end)
