import { audit } from "../../accounts/audit/audit.ts";
import { tenantOf } from "../../kernel/caller.ts";
import type { Work } from "../../kernel/work.ts";
import { isPrivate } from "./access.ts";
import type { Channel, ChannelRef } from "./channel-row.ts";
import type { ChatActor } from "../../kernel/events/chat-views.ts";

/** Records a moderator's action in the audit log under the caller; rooms see no tenant's users. */
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

type PrivateRead = { actor: ChatActor; what: "messages" | "members" | "report"; [more: string]: unknown };

/** Records that somebody who is not a member has read a private channel: who, when, and up to where. */
export const auditPrivateRead = async (
  work: Work,
  channel: Pick<Channel, "projectId" | "id" | "kind">,
  { actor, ...data }: PrivateRead,
): Promise<void> => {
  if (actor.kind === "PLAYER" || !isPrivate(channel)) return;
  const { projectId, id: channelId, kind } = channel;
  await auditChat(work, "chat.private_read", { projectId, channelId }, { kind, ...data });
};
