import { aPlayer, join } from "../rooms/sdk.ts";
import { startApp } from "../app/app.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

/** A player of the side's who sits in their room. */
const aSeat = async ({ tenant }: Side): Promise<{ roomId: string; sessionId: string }> => {
  const api = await startApp();
  const { token } = await aPlayer(api, tenant.key);
  const { room } = await join(api, token, "player");
  return room;
};

export const liveRoomOperations: Record<string, Known> = {
  listLiveRooms: { call: () => ({ path: "/admin/rooms" }) },
  getLiveRoom: { call: async (side) => ({ path: `/admin/rooms/${(await aSeat(side)).roomId}` }) },
  listLiveProcesses: { call: () => ({ path: "/admin/processes" }) },
  disconnectLiveClient: {
    call: async (side) => {
      const { roomId, sessionId } = await aSeat(side);
      const path = `/admin/rooms/${roomId}/clients/${sessionId}/disconnect`;
      return { path, body: { reason: "Swept" } };
    },
  },
};
