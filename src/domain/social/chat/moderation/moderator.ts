import { audit } from "../../../accounts/audit/audit.ts";
import { actorOf } from "../../../kernel/caller.ts";
import type { Work } from "../../../kernel/work.ts";

/** Who moderates, for `by` of `chat.message_moderated`. */
export type Moderator = "MODERATOR" | "ADMIN";

export const moderatorOf = ({ by }: Work): Moderator => (by?.caller.kind === "user" ? "ADMIN" : "MODERATOR");

/** The name of who acts, for `createdBy` and the like; `system` for what the server does by itself. */
export const actorName = ({ by }: Work): string => (by ? actorOf(by.caller) : "system");

export type ModeratorAct = {
  /** `noun.past_tense`; the noun is the type of the target. */
  action: string;
  projectId: string;
  id: string;
  data?: Record<string, unknown>;
};

/** Writes what a moderator did, also one who acts by a key. The server's own acts are rows of their own. */
export const auditModerator = async (
  work: Work,
  { action, projectId, id, data }: ModeratorAct,
): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  await audit(work, {
    action,
    target: { type: action.split(".", 1)[0]!, id },
    tenantId: caller.tenantId,
    data: { projectId, ...data },
  });
};
