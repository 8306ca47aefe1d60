import Environment
import NIOCore

/// How the body of a request is read from its socket.
extension HTTPConnectionHandler {
    /// The task that answers waits for the next piece of the body.
    func bodyIsWanted(_ demand: BodyPipe.Demand, of exchange: Exchange) {
        guard isCurrent(exchange), !exchange.isComplete else { return }
        entry.noteWaiting()
        exchange.noteDemand(demand)
        if demand == .pieceOfWhole, exchange.wholeTimer == nil {
            exchange.wholeTimer = schedule(limits.bodyTime) {
                $0.fail(exchange, 408, "the request's body did not arrive within body_time (\($0.limits.bodyTime.shown))")
            }
        }
        readWhenThereIsRoom(exchange, since: core.table.time.monotonicNanoseconds())
    }

    /// What a read may bring counts before it begins: the event loop reads all sockets before any of the tasks that answer comes to count what came.
    private func readWhenThereIsRoom(_ exchange: Exchange, since start: UInt64) {
        let expected = exchange.expected(in: limits.readBuffer)
        guard let memory = exchange.memory, !memory.mayRead(expected, after: exchange.received) else { return read(exchange) }
        // The client of a body that is not read is not to blame for its silence.
        guard core.table.time.monotonicNanoseconds() - start < UInt64(limits.memoryWait.nanoseconds) else { return yieldResources(exchange) }
        exchange.roomTimer?.cancel()
        exchange.roomTimer = schedule(.milliseconds(20)) { this in
            guard this.isCurrent(exchange), !exchange.isComplete, !exchange.isBodyWanted else { return }
            this.readWhenThereIsRoom(exchange, since: start)
        }
    }

    private func read(_ exchange: Exchange) {
        guard let context else { return }
        exchange.isBodyWanted = true
        if exchange.expectsContinue {
            exchange.expectsContinue = false
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n")), promise: nil)
        }
        if exchange.idleTimer == nil {
            exchange.idleTimer = schedule(limits.bodyIdleTime) {
                $0.fail(exchange, 408, "nothing of the request's body arrived for body_idle_time (\($0.limits.bodyIdleTime.shown))")
            }
        }
        resumeReading()
    }

    func take(_ piece: ByteBuffer, of exchange: Exchange) {
        exchange.received += piece.readableBytes
        exchange.idleTimer?.cancel()
        exchange.idleTimer = nil
        // Nobody wanted the body: its short rest is discarded.
        guard !exchange.isAnswered else { return }
        exchange.isBodyWanted = false
        entry.noteBusy()
        exchange.memory?.noteArrived(piece.readableBytes)
        exchange.pipe?.push(piece)
    }

    func requestIsComplete(_ exchange: Exchange) {
        exchange.isComplete = true
        exchange.stopBodyTimers()
        entry.noteBusy()
        exchange.memory?.noteArrived(0)
        exchange.pipe?.end(.success(()))
        if exchange.isAnswered { finishExchange(exchange) }
    }
}
