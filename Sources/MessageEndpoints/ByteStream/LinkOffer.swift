import Interfaces
import NIOCore

/// What the connecting side announces on a byte stream.
public struct EndpointOffer: Sendable, Equatable {
    /// Subprotocols in order of preference. Only Nightjars use byte streams: a side that offers generation 4 knows each revision by both names, and
    /// one that lists it first has version vectors.
    public var protocols: [String]
    /// The requested database; empty if there is only one.
    public var database: String
    /// For a listener with an authenticator.
    public var username: String?
    public var password: String?

    public init(protocols: [String] = Subprotocol.names, database: String = "", username: String? = nil, password: String? = nil) {
        self.protocols = protocols
        self.database = database
        self.username = username
        self.password = password
    }

    /// Corresponds to ``Subprotocol/versionsHeader``, which is used where there are headers.
    public var prefersVersions: Bool { protocols.first == Subprotocol.generation4.rawValue }

    public var hasBothNames: Bool { protocols.contains(Subprotocol.generation4.rawValue) }

    /// Encodes the number of fields, then each field with a two-byte length.
    static func encode(_ fields: [String]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.writeInteger(UInt8(clamping: fields.count))
        for field in fields.prefix(255) {
            let bytes = Array(field.utf8.prefix(1024))
            buffer.writeInteger(UInt16(bytes.count))
            buffer.writeBytes(bytes)
        }
        return buffer
    }

    static func decode(_ buffer: ByteBuffer) -> [String]? {
        var buffer = buffer
        guard let count = buffer.readInteger(as: UInt8.self) else { return nil }
        var fields: [String] = []
        for _ in 0..<count {
            guard let length = buffer.readInteger(as: UInt16.self), let text = buffer.readString(length: Int(length)) else { return nil }
            fields.append(text)
        }
        return fields
    }

    /// Fields: segment size, protocols, database, and credentials if there are any.
    func payload(segmentBytes: Int) -> ByteBuffer {
        var fields = ["\(segmentBytes)", protocols.joined(separator: ","), database]
        if let username { fields += [username, password ?? ""] }
        return Self.encode(fields)
    }

    static func read(_ payload: ByteBuffer) -> (offer: EndpointOffer, segmentBytes: Int)? {
        guard let fields = decode(payload), fields.count >= 3, let segmentBytes = Int(fields[0]), segmentBytes >= 16 else { return nil }
        var offer = EndpointOffer(protocols: fields[1].split(separator: ",").map(String.init), database: fields[2])
        if fields.count >= 5 { (offer.username, offer.password) = (fields[3], fields[4]) }
        return (offer, segmentBytes)
    }
}

/// A listener's answer to an ``EndpointOffer``.
public enum EndpointAnswer: Sendable {
    /// One of the offered protocols; the context is returned with the connection.
    case accept(protocol: String, context: (any Sendable)? = nil)
    /// With an HTTP status, as for a refused upgrade.
    case refuse(status: Int, reason: String)
}
