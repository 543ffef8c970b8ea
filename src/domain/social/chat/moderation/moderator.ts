import { audit } from "../../../accounts/audit/audit.ts";
import { actorOf } from "../../../kernel/caller.ts";
import type { Work } from "../../../kernel/work.ts";

/** The kind of moderator, for `by` of `chat.message_moderated`. */
export type Moderator = "MODERATOR" | "ADMIN";

export const moderatorOf = ({ by }: Work): Moderator => (by?.caller.kind === "user" ? "ADMIN" : "MODERATOR");

/** Returns the actor's name, for `createdBy` and the like; `system` for the server's own actions. */
export const actorName = ({ by }: Work): string => (by ? actorOf(by.caller) : "system");

export type ModeratorAct = {
  /** `noun.past_tense`; the noun is the type of the target. */
  action: string;
  projectId: string;
  id: string;
  data?: Record<string, unknown>;
};

/** Records a moderator's action, also one by an API key. The server's own actions are rows of their own. */
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
