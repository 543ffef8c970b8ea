import { audit } from "../audit/audit.ts";
import { tenantOf } from "../caller.ts";
import type { Work } from "../work.ts";
import type { ChannelRef } from "./channel-row.ts";

/** Writes what a moderator does into the audit log of who asks; rooms ask for no tenant's people. */
export const auditChat = async (
  work: Work,
  action: string,
  { projectId, channelId }: ChannelRef,
  data: Record<string, unknown> = {},
): Promise<void> => {
  if (!work.by) return;
  const target = { type: "chat_channel", id: channelId };
  await audit(work, { action, target, tenantId: tenantOf(work.by.caller), data: { projectId, ...data } });
};
