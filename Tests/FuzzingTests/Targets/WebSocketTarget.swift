import NIOCore

@testable import Transport

extension FuzzTarget {
    /// Frames of a WebSocket peer: however the bytes are cut, the same messages come out, and no more is held than came.
    static let webSocketFrames = FuzzTarget("websocket-frames", longestInput: 2_048) { bytes in
        guard let first = bytes.first else { return }
        let frames = Array(bytes.dropFirst())
        let expectsMask = first & 1 == 1
        func decode(_ cut: Int) throws -> ([[UInt8]], UInt16?, [UInt8]?) {
            var decoder = WebSocketDecoder(expectsMask: expectsMask, limit: 500)
            var output = WebSocketDecoder.Output()
            var at = 0
            while at < frames.count {
                let end = min(frames.count, at + cut)
                var piece = ByteBuffer(bytes: frames[at..<end])
                decoder.decode(&piece, into: &output)
                at = end
                try hold(decoder.unfinishedBytes <= 4_096 + 4 * frames.count, "\(decoder.unfinishedBytes) bytes held of \(frames.count)")
                if output.violation != nil || output.close != nil { break }
            }
            let close = output.close.map { Array($0.readableBytesView) }
            return (output.messages.map { Array($0.readableBytesView) }, output.violation?.code, close)
        }
        let whole = try decode(Int.max >> 1)
        for cut in [1, 2, 7, 100] {
            let pieces = try decode(cut)
            try hold(pieces.0 == whole.0, "other messages when cut into \(cut) bytes")
            try hold(pieces.1 == whole.1, "another violation when cut into \(cut) bytes: \(pieces.1 ?? 0), \(whole.1 ?? 0)")
            if whole.1 == nil { try hold(pieces.2 == whole.2, "another end when cut into \(cut) bytes") }
        }
        try hold(whole.0.allSatisfy { $0.count <= 500 }, "a message beyond its limit")
        if let close = whole.2 {
            _ = CloseFrame(payload: ByteBuffer(bytes: close))
            try hold(close.count <= 125, "a control frame beyond its limit")
        }
    }
}
