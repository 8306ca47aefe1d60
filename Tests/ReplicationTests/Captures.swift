import BLIP
import Documents
import Glibc
import NIOCore


/// A message from a captured session, put together from its frames.
struct CapturedMessage {
    enum Kind {
        case request(IncomingRequest)
        case reply(to: UInt64, IncomingReply)
    }

    var toServer: Bool
    var kind: Kind
}

/// A captured connection: what real products said to each other.
struct CapturedConnection {
    var messages: [CapturedMessage] = []
    /// The server's replies, by the number of the client's request, and the other way round.
    var repliesToClient: [UInt64: IncomingReply] = [:]
    var repliesToServer: [UInt64: IncomingReply] = [:]

    var clientRequests: [IncomingRequest] { requests(toServer: true) }
    var serverRequests: [IncomingRequest] { requests(toServer: false) }

    private func requests(toServer: Bool) -> [IncomingRequest] {
        messages.compactMap {
            guard $0.toServer == toServer, case .request(let request) = $0.kind else { return nil }
            return request
        }
    }
}

enum Captures {
    struct Missing: Error {
        var path: String
    }

    static var folder: String {
        let parts = #filePath.split(separator: "/", omittingEmptySubsequences: false)
        return parts.dropLast(2).joined(separator: "/") + "/Vectors/captures"
    }

    /// The sessions of databases with revision trees, and those with version vectors.
    static func files() throws -> [String] {
        try ["", "3.2/"].flatMap { under in
            guard let listing = opendir(folder + "/" + under) else { throw Missing(path: folder + "/" + under) }
            defer { closedir(listing) }
            var names: [String] = []
            while let entry = readdir(listing) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                // In these two a client breaks the framing, which BLIPTests cover.
                if ["vv-probe-badcrc.jsonl", "vv-probe-skipped-msgno.jsonl"].contains(name) { continue }
                if name.hasSuffix(".jsonl"), name.hasPrefix("tree-") || name.hasPrefix("vv-") { names.append(under + name) }
            }
            return names.sorted()
        }
    }

    static func read(_ name: String) throws -> [CapturedConnection] {
        let path = folder + "/" + name
        guard let file = fopen(path, "rb") else { throw Missing(path: path) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&chunk, 1, chunk.count, file), count > 0 { bytes.append(contentsOf: chunk[..<count]) }
        var order: [Int64] = []
        var decoders: [Int64: Decoder] = [:]
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let entry = try JSONValue(parsing: Array(line))
            guard entry["op"]?.asString == "binary", let hex = entry["hex"]?.asString else { continue }
            let id = entry["conn"]?.asInt64 ?? 0
            if decoders[id] == nil {
                order.append(id)
                decoders[id] = Decoder()
            }
            try decoders[id]?.take(buffer(hex: hex), toServer: entry["dir"]?.asString == "c2s")
        }
        return order.compactMap { decoders[$0]?.connection }
    }

    /// A class, because dictionaries cannot hold noncopyable values.
    private final class Decoder {
        var connection = CapturedConnection()
        private var atServer = BLIPConnection()
        private var atClient = BLIPConnection()
        /// A connection accepts only replies to requests of its own, so that each side sends placeholders for the captured requests.
        private var sentByServer: [RequestToken: UInt64] = [:]
        private var sentByClient: [RequestToken: UInt64] = [:]

        private func pretend(_ connection: inout BLIPConnection, _ sent: inout [RequestToken: UInt64], _ number: UInt64) {
            while UInt64(sent.count) < number {
                if let token = connection.send(OutgoingRequest(profile: "captured")) { sent[token] = UInt64(sent.count) + 1 }
                while connection.nextFrame() != nil {}
            }
        }

        func take(_ frame: ByteBuffer, toServer: Bool) throws {
            var events: [BLIPEvent] = []
            if toServer { try atServer.receive(frame, into: &events) } else { try atClient.receive(frame, into: &events) }
            for event in events {
                switch event {
                case .request(let request):
                    connection.messages.append(CapturedMessage(toServer: toServer, kind: .request(request)))
                    if toServer { pretend(&atClient, &sentByClient, request.number) } else { pretend(&atServer, &sentByServer, request.number) }
                case .reply(let token, let reply):
                    guard let number = toServer ? sentByServer[token] : sentByClient[token] else { continue }
                    connection.messages.append(CapturedMessage(toServer: toServer, kind: .reply(to: number, reply)))
                    if toServer { connection.repliesToServer[number] = reply } else { connection.repliesToClient[number] = reply }
                case .replyProgress, .sent, .replyBegan, .replyBytes, .replyEnded, .wantsMore: break
                }
            }
        }
    }

    private static func buffer(hex: String) -> ByteBuffer {
        func digit(_ byte: UInt8) -> UInt8 { byte < 0x3a ? byte - 0x30 : (byte | 0x20) - 0x57 }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(hex.utf8.count / 2)
        var high: UInt8?
        for byte in hex.utf8 {
            if let first = high {
                bytes.append(first << 4 | digit(byte))
                high = nil
            } else {
                high = digit(byte)
            }
        }
        return ByteBuffer(bytes: bytes)
    }
}

func json(_ buffer: ByteBuffer) -> JSONValue? { try? JSONValue(parsing: [UInt8](buffer.readableBytesView)) }
