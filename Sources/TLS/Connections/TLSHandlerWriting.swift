import NIOCore

/// Output: writes, flushes and closing.
extension TLSHandler {
    /// The capacity of the largest TLS record; writes that fit together share one.
    private static var recordBytes: Int { 16384 }

    package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let bytes = unwrapOutboundIn(data)
        guard !isOutputClosed, waitingOutputClose == nil else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        switch phase {
        case .refusing, .ended:
            promise?.fail(ChannelError.ioOnClosedChannel)
        case .waiting, .sniffing, .handshaking:
            heldBytes += bytes.readableBytes
            pending.append((bytes, promise))
            if heldBytes > limits.handshakeBytes {
                fail(TLSError(
                    .limitExceeded, "\(heldBytes) bytes wait for the end of the TLS handshake, more than handshake_bytes (\(limits.handshakeBytes)) allows"))
            }
        case .open:
            pending.append((bytes, promise))
        }
    }

    package func flush(context: ChannelHandlerContext) {
        flushed = pending.count
        if phase == .open { encryptFlushed(context) }
        context.flush()
    }

    /// Passes on OpenSSL's output.
    func flushRecords(_ context: ChannelHandlerContext) {
        guard let engine, engine.records.outbound.readableBytes > 0 else { return }
        context.writeAndFlush(wrapOutboundOut(engine.records.takeOutbound()), promise: nil)
    }

    func encryptFlushed(_ context: ChannelHandlerContext) {
        guard let engine, flushed > 0 else { return }
        while flushed > 0, phase == .open, !isOutputClosed {
            var (bytes, promise) = pending.removeFirst()
            flushed -= 1
            while flushed > 0, let next = pending.first, bytes.readableBytes + next.bytes.readableBytes <= Self.recordBytes {
                bytes.writeImmutableBuffer(next.bytes)
                if let other = next.promise {
                    if let first = promise { first.futureResult.cascade(to: other) } else { promise = other }
                }
                pending.removeFirst()
                flushed -= 1
            }
            switch bytes.withUnsafeReadableBytes({ engine.write($0) }) {
            case .done:
                context.write(wrapOutboundOut(engine.records.takeOutbound()), promise: promise)
            case .failed(let error):
                promise?.fail(error)
                return fail(error)
            case .needsMore:
                // Renegotiation is disabled, so writing never has to wait for reading.
                let error = TLSError(.handshakeFailed, "OpenSSL did not accept the bytes to send")
                promise?.fail(error)
                return fail(error)
            }
        }
        context.flush()
    }

    package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        switch mode {
        case .input:
            context.close(mode: .input, promise: promise)
        case .output:
            switch phase {
            case .open: closeOutput(context, promise)
            case .waiting, .sniffing, .handshaking:
                if waitingOutputClose == nil { waitingOutputClose = .some(promise) } else { promise?.fail(ChannelError.outputClosed) }
            case .refusing, .ended: context.close(mode: .output, promise: promise)
            }
        case .all:
            if phase == .open, !isOutputClosed { sendCloseNotify(context) }
            reportRefusal(context)
            end(ChannelError.ioOnClosedChannel)
            context.close(mode: .all, promise: promise)
        }
    }

    func closeOutput(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) {
        guard !isOutputClosed else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        flushed = pending.count
        encryptFlushed(context)
        guard phase == .open else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        sendCloseNotify(context)
        context.close(mode: .output, promise: promise)
    }

    private func sendCloseNotify(_ context: ChannelHandlerContext) {
        isOutputClosed = true
        engine?.closeOutput()
        flushRecords(context)
    }
}
