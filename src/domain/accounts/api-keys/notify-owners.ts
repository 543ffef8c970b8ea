import { actorOf } from "../../kernel/caller.ts";
import type { Mail } from "../email/mail.ts";
import { Project } from "../projects/project.ts";
import { ownersOf } from "../tenants/notify-owners.ts";
import type { Work } from "../../kernel/work.ts";
import type { ApiKey } from "./api-key.ts";

/** Notifies the OWNERS of a new key by mail, except its creator. */
export const notifyOwnersOfKey = async (work: Work, mail: Mail, key: ApiKey): Promise<void> => {
  const { em, by } = work;
  const { tenantId, name: projectName } = await em.findOneOrFail(Project, { id: key.projectId });
  const maker = by ? actorOf(by.caller) : "";
  for (const { id: userId, email: to, name } of await ownersOf(work, tenantId)) {
    if (maker === `user:${userId}`) continue;
    const values = { name, keyName: key.name, keyPrefix: key.prefix, projectName };
    await mail.queue(work, { template: "api-key-created", to, values, tenantId, userId });
  }
};
