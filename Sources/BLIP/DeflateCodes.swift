/// A code as the bits to write, and how many of them.
struct DeflateCode {
    var bits: UInt32 = 0
    var length = 0
}

/// A symbol with its extra bits.
struct DeflateSymbol {
    static let endOfBlock = 256

    let symbol: Int
    let extraBits: Int
    let extra: Int

    @inline(__always)
    init(length: Int) {
        let value = length - 3
        if value < 8 {
            (symbol, extraBits, extra) = (257 + value, 0, 0)
        } else if value == 255 {
            (symbol, extraBits, extra) = (285, 0, 0)
        } else {
            let high = Int.bitWidth - 1 - value.leadingZeroBitCount
            extraBits = high - 2
            symbol = 257 + 4 * (high - 1) + (value >> (high - 2)) & 3
            extra = value & (1 << (high - 2) - 1)
        }
    }

    @inline(__always)
    init(distance: Int) {
        let value = distance - 1
        if value < 4 {
            (symbol, extraBits, extra) = (value, 0, 0)
        } else {
            let high = Int.bitWidth - 1 - value.leadingZeroBitCount
            extraBits = high - 1
            symbol = 2 * high + (value >> (high - 1)) & 1
            extra = value & (1 << (high - 1) - 1)
        }
    }
}

/// The codes of one block: literal/length and distance.
struct DeflateCodes {
    var literals: [DeflateCode]
    var distances: [DeflateCode]

    var endOfBlock: DeflateCode { literals[DeflateSymbol.endOfBlock] }

    init(literals: [UInt8], distances: [UInt8]) {
        (self.literals, self.distances) = (Self.canonical(literals), Self.canonical(distances))
    }

    /// The fixed codes of the standard.
    static let fixed = DeflateCodes(
        literals: (0..<288).map { $0 < 144 ? 8 : $0 < 256 ? 9 : $0 < 280 ? 7 : 8 }, distances: Array(repeating: 5, count: 30))

    /// Size of a match with the fixed codes, in bits.
    @inline(__always)
    func bits(length: Int, distance: Int) -> Int {
        let (length, distance) = (DeflateSymbol(length: length), DeflateSymbol(distance: distance))
        return (length.symbol < 280 ? 7 : 8) + length.extraBits + 5 + distance.extraBits
    }

    /// Canonical codes for these lengths: codes of the same length are assigned in symbol order.
    static func canonical(_ lengths: [UInt8]) -> [DeflateCode] {
        var counts = [UInt32](repeating: 0, count: 17)
        for length in lengths where length > 0 { counts[Int(length)] += 1 }
        var next = [UInt32](repeating: 0, count: 17)
        for length in 1...15 { next[length + 1] = (next[length] + counts[length]) << 1 }
        return lengths.map { length in
            guard length > 0 else { return DeflateCode() }
            var (code, bits) = (next[Int(length)], UInt32(0))
            next[Int(length)] += 1
            // Huffman codes are written starting with their highest bit.
            for _ in 0..<length { (bits, code) = (bits << 1 | code & 1, code >> 1) }
            return DeflateCode(bits: bits, length: Int(length))
        }
    }

    /// The lengths of a Huffman code for symbols with these frequencies, none longer than `limit`. At least two symbols must occur.
    static func lengths(_ frequencies: [Int], limit: Int) -> [UInt8] {
        let used = frequencies.indices.filter { frequencies[$0] > 0 }.sorted { (frequencies[$0], $0) < (frequencies[$1], $1) }
        // Leaves by weight, followed by inner nodes, which are created in order of weight.
        var weights = used.map { frequencies[$0] }
        var parents = [Int](repeating: 0, count: 2 * used.count - 1)
        var (leaf, node) = (0, used.count)
        for parent in used.count..<parents.count {
            var weight = 0
            for _ in 0..<2 {
                let takesLeaf = leaf < used.count && (node >= parent || weights[leaf] <= weights[node])
                let child = takesLeaf ? leaf : node
                if takesLeaf { leaf += 1 } else { node += 1 }
                weight += weights[child]
                parents[child] = parent
            }
            weights.append(weight)
        }
        var depths = [Int](repeating: 0, count: parents.count)
        for child in (0..<parents.count - 1).reversed() { depths[child] = depths[parents[child]] + 1 }
        var counts = [Int](repeating: 0, count: limit + 1)
        for depth in depths[..<used.count] { counts[min(depth, limit)] += 1 }
        // Truncating long codes oversubscribes the code space: lengthening shorter codes makes room.
        var taken = (1...limit).reduce(0) { $0 + counts[$1] << (limit - $1) }
        while taken > 1 << limit {
            var length = limit - 1
            while counts[length] == 0 { length -= 1 }
            counts[limit] -= 1
            counts[length] -= 1
            counts[length + 1] += 2
            taken -= 1
        }
        var lengths = [UInt8](repeating: 0, count: frequencies.count)
        var rest = used[...]
        for length in (1...limit).reversed() { for _ in 0..<counts[length] { lengths[rest.removeFirst()] = UInt8(length) } }
        return lengths
    }
}

/// Codes made for one block, and how they are encoded in front of it.
struct DeflateTables {
    let codes: DeflateCodes
    /// Size of the block with these codes, including the tables, in bits.
    let bits: Int
    private let literalCount: Int
    private let distanceCount: Int
    /// Lengths of both codes, run-length encoded, each with its extra bits.
    private var runs: [(symbol: Int, extra: Int)] = []
    private let runCodes: [DeflateCode]
    private let runOrderCount: Int

    private static let runOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
    private static let runExtraBits = [16: 2, 17: 3, 18: 7]

    init(_ tokens: UnsafeBufferPointer<UInt32>) {
        var literals = [Int](repeating: 0, count: 286)
        var distances = [Int](repeating: 0, count: 30)
        var bits = 3 + 14
        literals[DeflateSymbol.endOfBlock] = 1
        for token in tokens {
            guard token >= 512 else { literals[Int(token)] += 1; continue }
            let (length, distance) = (DeflateSymbol(length: Int(token & 511)), DeflateSymbol(distance: Int(token >> 9)))
            literals[length.symbol] += 1
            distances[distance.symbol] += 1
            bits += length.extraBits + distance.extraBits
        }
        // A code needs at least two symbols.
        for symbol in 0...1 where distances.count(where: { $0 > 0 }) < 2 { distances[symbol] = max(1, distances[symbol]) }
        for symbol in 0...1 where literals.count(where: { $0 > 0 }) < 2 { literals[symbol] = max(1, literals[symbol]) }
        let lengths = (DeflateCodes.lengths(literals, limit: 15), DeflateCodes.lengths(distances, limit: 15))
        codes = DeflateCodes(literals: lengths.0, distances: lengths.1)
        literalCount = (lengths.0.lastIndex { $0 > 0 } ?? 0) + 1
        distanceCount = (lengths.1.lastIndex { $0 > 0 } ?? 0) + 1
        for (symbol, length) in lengths.0.enumerated() { bits += literals[symbol] * Int(length) }
        for (symbol, length) in lengths.1.enumerated() { bits += distances[symbol] * Int(length) }

        runs = Self.runs(lengths.0[..<literalCount] + lengths.1[..<distanceCount])
        var frequencies = [Int](repeating: 0, count: 19)
        for run in runs { frequencies[run.symbol] += 1 }
        if frequencies.count(where: { $0 > 0 }) < 2 { frequencies[frequencies[0] > 0 ? 1 : 0] = 1 }
        let runLengths = DeflateCodes.lengths(frequencies, limit: 7)
        runCodes = DeflateCodes.canonical(runLengths)
        runOrderCount = max(4, (Self.runOrder.lastIndex { runLengths[$0] > 0 } ?? 0) + 1)
        bits += 3 * runOrderCount
        for run in runs { bits += runCodes[run.symbol].length + (Self.runExtraBits[run.symbol] ?? 0) }
        self.bits = bits
    }

    private static func runs(_ lengths: ArraySlice<UInt8>) -> [(symbol: Int, extra: Int)] {
        var runs: [(symbol: Int, extra: Int)] = []
        var rest = lengths
        while let length = rest.first {
            let count = rest.prefix { $0 == length }.count
            rest = rest.dropFirst(count)
            var left = count
            if length > 0 {
                runs.append((Int(length), 0))
                left -= 1
            }
            while left > 0 {
                switch (length, left) {
                case (0, 11...):
                    runs.append((18, min(left, 138) - 11))
                    left -= min(left, 138)
                case (0, 3...):
                    runs.append((17, left - 3))
                    left = 0
                case (1..., 3...):
                    runs.append((16, min(left, 6) - 3))
                    left -= min(left, 6)
                default:
                    runs.append((Int(length), 0))
                    left -= 1
                }
            }
        }
        return runs
    }

    /// Writes the block header with these codes.
    func write(to writer: inout BitWriter) {
        writer.put(0b100, 3)
        writer.put(UInt64(literalCount - 257), 5)
        writer.put(UInt64(distanceCount - 1), 5)
        writer.put(UInt64(runOrderCount - 4), 4)
        writer.flush()
        for symbol in Self.runOrder[..<runOrderCount] {
            writer.put(UInt64(runCodes[symbol].length), 3)
            writer.flush()
        }
        for run in runs {
            writer.put(runCodes[run.symbol])
            writer.put(UInt64(run.extra), Self.runExtraBits[run.symbol] ?? 0)
            writer.flush()
        }
    }
}

/// Writes bits, lowest first.
struct BitWriter {
    /// Bytes that may be written beyond the last one.
    static let slack = 8

    private var bits: UInt64 = 0
    private var count = 0
    private var place = UnsafeMutableRawPointer(bitPattern: 8)

    /// Continues writing at `place`, carrying over the bits of an incomplete byte.
    mutating func begin(at place: UnsafeMutableRawPointer) { self.place = place }

    func written(since start: UnsafeMutableRawPointer) -> Int { place.map { $0 - start } ?? 0 }

    /// At most 56 bits between two flushes.
    @inline(__always)
    mutating func put(_ value: UInt64, _ length: Int) {
        bits |= value &<< UInt64(truncatingIfNeeded: count)
        count += length
    }

    @inline(__always)
    mutating func put(_ code: DeflateCode) { put(UInt64(code.bits), code.length) }

    @inline(__always)
    mutating func flush() {
        guard let place else { return }
        place.storeBytes(of: bits.littleEndian, as: UInt64.self)
        let full = count >> 3
        self.place = place + full
        bits = full == 8 ? 0 : bits &>> UInt64(truncatingIfNeeded: full << 3)
        count &= 7
    }

    /// Pads to a byte boundary.
    mutating func align() {
        count = (count + 7) & ~7
        flush()
    }

    /// Writes a stored (uncompressed) block.
    mutating func putStored(_ bytes: UnsafeMutablePointer<UInt8>, _ length: Int) {
        put(0, 3)
        align()
        put(UInt64(length) | UInt64(~UInt16(truncatingIfNeeded: length)) << 16, 32)
        flush()
        guard let place else { return }
        place.copyMemory(from: bytes, byteCount: length)
        self.place = place + length
    }
}
