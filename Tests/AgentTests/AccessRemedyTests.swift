import DocumentStore
import Glibc
import Testing

@testable import Agent

/// What an operator is told if the system does not let the agent use its data folder.
@Suite struct AccessRemedyTests {
    @Test func aDiskThatIsReadOnlyHasToBeMountedForWriting() {
        let remedy = AgentUser.remedy(EROFS, at: "/srv/data/agent.lock", data: "/srv/data") ?? ""
        #expect(remedy.contains("mount it for writing") && remedy.contains("name /srv/data in ReadWritePaths="), "\(remedy)")
    }

    @Test func whatIsInTheWayIsNamedOnce() {
        let error = AgentUser.explained(.folder(path: "/srv/data/main.nightjar", errno: ENOTDIR, detail: "Not a directory"), data: "/srv/data")
        #expect("\(error)".hasPrefix("cannot use folder /srv/data/main.nightjar: Not a directory (errno 20); something on the way to /srv/data/main.nightjar is not a folder"), "\(error)")
    }

    @Test func otherErrorsStayAsTheyAre() {
        let error = StoreError.locked(folder: "/srv/data/main.nightjar", pid: 7)
        #expect(AgentUser.explained(error, data: "/srv/data") as? StoreError == error)
        #expect(AgentUser.remedy(ENOENT, at: "/srv/data/agent.lock", data: "/srv/data") == nil)
    }
}
