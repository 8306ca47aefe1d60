import Logging

extension PluginEvent {
    func log(to logger: Logger) {
        switch self {
        case .loaded(_, let version): logger.info("plugin loaded", metadata: ["version": "\(version)"])
        case .reloaded(_, let from, let to): logger.notice("plugin reloaded", metadata: ["version": "\(to)", "from": "\(from)"])
        case .refused(_, let version, let serving, let problem):
            logger.error("plugin refused: \(problem)", metadata: ["version": "\(version)", "serving": "\(serving ?? "nothing")"])
        case .missing(_, let serving):
            logger.warning("plugin's file is gone; its last version keeps serving", metadata: ["version": "\(serving)"])
        case .returned(_, let version): logger.notice("plugin's file is back", metadata: ["version": "\(version)"])
        case .restored(_, let version): logger.notice("plugin's file is again the version in force", metadata: ["version": "\(version)"])
        case .removed: logger.info("plugin removed")
        case .parameterFileChanged(_, let usedBy, let parameter):
            logger.notice("parameter file changed", metadata: ["used_by": "\(usedBy)", "parameter": "\(parameter)"])
        case .parameterFileRefused(_, let usedBy, let parameter, let message):
            logger.error(
                "parameter file cannot be read; its last text stays in force: \(message)",
                metadata: ["used_by": "\(usedBy)", "parameter": "\(parameter)"])
        case .failed(_, let version, let kind, let message):
            logger.error("plugin failed: \(message)", metadata: ["version": "\(version)", "kind": "\(kind)"])
        case .rolledBack(_, let from, let to):
            logger.warning("plugin rolled back", metadata: ["version": "\(to)", "from": "\(from)"])
        case .failing(_, let version, let usedBy, let failures, let message):
            logger.error(
                "plugin keeps failing and is no longer called: \(message)",
                metadata: ["version": "\(version)", "used_by": "\(usedBy)", "failures": "\(failures)"])
        case .recovered(_, let version, let usedBy):
            logger.notice("plugin works again", metadata: ["version": "\(version)", "used_by": "\(usedBy)"])
        case .notKept(_, let version, let message):
            logger.error("version cannot be kept for a rollback: \(message)", metadata: ["version": "\(version)"])
        case .folder(let problem): logger.warning("plugins folder: \(problem)")
        }
    }
}
