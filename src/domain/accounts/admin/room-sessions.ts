import { audit } from "../audit/audit.ts";
import type { ListedRoom, RoomSession } from "../../kernel/live-rooms.ts";
import { Project } from "../projects/project.ts";
import type { Work } from "../../kernel/work.ts";

/** Records who ends a session and why in the audit log of the room's tenant, before it is ended. */
export const auditDisconnect = async (
  work: Work,
  { room, session }: { room: ListedRoom; session: RoomSession },
  reason: string,
): Promise<void> => {
  const { roomId, kind, projectId } = room;
  const { sessionId, playerId, userId } = session;
  const project = await work.em.findOne(Project, { id: projectId }, { fields: ["tenantId"] });
  await audit(work, {
    action: "room.client_disconnected",
    target: { type: "room", id: roomId },
    tenantId: project?.tenantId ?? null,
    data: { kind, projectId, sessionId, playerId, userId, reason },
  });
};
