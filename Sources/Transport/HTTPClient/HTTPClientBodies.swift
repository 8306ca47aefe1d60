import Interfaces
import NIOCore
import NIOHTTP1

extension HTTPClient {
    /// Writes a streamed request body.
    public struct BodyWriter: Sendable {
        struct Disconnected: Error {}

        let outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>

        /// Sends one piece; returns when the connection can accept more.
        ///
        /// - Throws: if the server has disconnected or already answered; do not catch this error.
        public func write(_ piece: ByteBuffer) async throws {
            guard piece.readableBytes > 0 else { return }
            try await send(.body(.byteBuffer(piece)))
        }

        func send(_ part: HTTPClientRequestPart) async throws {
            do {
                try await outbound.write(part)
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                throw Disconnected()
            }
        }
    }

    /// A response's body as it arrives; may be read only once, by one task.
    public final class ResponseBody: AsyncSequence {
        public typealias Element = ByteBuffer

        private let parts: ClientConnection.Parts
        private let target: String
        private(set) var isComplete = false

        init(_ parts: ClientConnection.Parts, target: String) {
            self.parts = parts
            self.target = target
        }

        /// The next piece; nil at the end.
        ///
        /// - Throws: if the connection breaks before the end.
        public func next() async throws -> ByteBuffer? {
            while !isComplete {
                switch try await parts.next() {
                case .body(let piece): return piece
                case .end: isComplete = true
                case .head: continue
                case nil: throw ReplicationError(network: .connectionReset, message: "\(target): the connection broke before the end of the answer")
                }
            }
            return nil
        }

        public struct AsyncIterator: AsyncIteratorProtocol {
            let body: ResponseBody

            public mutating func next() async throws -> ByteBuffer? { try await body.next() }
        }

        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }
    }
}
