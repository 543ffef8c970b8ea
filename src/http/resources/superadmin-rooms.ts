import { z } from "zod";
import type { App } from "../../app.ts";
import { auditDisconnect } from "../../domain/accounts/admin/room-sessions.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import {
  RESPONSE_TIMEOUT_MS,
  LISTINGS_READ_MAX,
  type LiveProcess,
  type LiveRooms,
  type ProcessFacts,
  ROOM_KINDS,
  ROOM_STATE_MAX_BYTES,
} from "../../domain/kernel/live-rooms.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { Reply, route } from "../route.ts";
import { Order, pageReply } from "./list-bodies.ts";
import { PEOPLE, ReasonBody, superadmin } from "./superadmin-bodies.ts";

/** Ids of rooms, sessions and processes are made by Colyseus and by ourselves, of these letters. */
const ID = z.string().regex(/^[\w-]{1,64}$/);
const number = new Intl.NumberFormat("en");

const RoomBody = z
  .object({
    roomId: z.string(),
    kind: z.enum(ROOM_KINDS),
    projectId: z.string(),
    subject: z.string().nullable().meta({
      description:
        "Id of the player, channel or lobby; key of the leaderboard; mode of a list of lobbies, null for all",
    }),
    processId: z.string(),
    clients: z.int().meta({ description: "Seats that are taken or reserved" }),
    maxClients: z.int(),
    locked: z.boolean(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "LiveRoom" });

const SessionBody = z
  .object({
    sessionId: z.string(),
    playerId: z.string().nullable(),
    userId: z.string().nullable().meta({ description: "Of a console user" }),
    joinedAt: z.iso.datetime().nullable().meta({ description: "null while it is being let in" }),
    bufferedBytes: z.int().meta({ description: "What waits to be sent to it" }),
  })
  .meta({ id: "LiveRoomSession" });

const counts = z.object(Object.fromEntries(ROOM_KINDS.map((kind) => [kind, z.int()])));

const ProcessBody = z
  .object({
    processId: z.string(),
    isAnswering: z.boolean().meta({
      description: `It answered within ${RESPONSE_TIMEOUT_MS} ms; otherwise all else is null`,
    }),
    pid: z.int().nullable(),
    host: z.string().nullable(),
    roles: z.array(z.string()).nullable(),
    version: z.string().nullable(),
    since: z.iso.datetime().nullable(),
    rooms: counts.nullable().meta({ description: "Open rooms by kind" }),
    clients: counts.nullable().meta({ description: "Clients in them" }),
    memory: z.object({ rssBytes: z.int(), heapUsedBytes: z.int() }).nullable(),
  })
  .meta({ id: "LiveProcess" });

const SILENT: Record<keyof ProcessFacts, null> = {
  pid: null,
  host: null,
  roles: null,
  version: null,
  since: null,
  rooms: null,
  clients: null,
  memory: null,
};

const showProcess = ({ processId, facts }: LiveProcess) => ({
  processId,
  isAnswering: facts !== null,
  ...(facts ?? SILENT),
});

const roomsOf = ({ liveRooms }: App): LiveRooms => {
  if (!liveRooms) throw notFound("Room");
  return liveRooms;
};

const common = { ...superadmin, access: PEOPLE, errors: ["SERVICE_UNAVAILABLE"] } as const;

const reading = [
  route({
    ...common,
    method: "get",
    path: "/admin/rooms",
    id: "listLiveRooms",
    summary: "List the rooms that are open",
    description:
      "Of all tenants and processes. Of those that the filters leave, at most " +
      `${number.format(LISTINGS_READ_MAX)} are looked at; then X-Total-Estimated is true.`,
    query: PageQuery.extend({
      sort: z.enum(["clients", "createdAt"]).default("clients"),
      order: Order,
      kind: z.enum(ROOM_KINDS).optional(),
      projectId: z.uuid().optional(),
      processId: ID.optional(),
    }),
    response: pageBody(RoomBody),
    run: async (app, { query }) => {
      const { rooms, ...total } = await roomsOf(app).list(query);
      return pageReply(rooms, total, query);
    },
  }),
  route({
    ...common,
    method: "get",
    path: "/admin/rooms/{roomId}",
    id: "getLiveRoom",
    summary: "Look into an open room",
    description:
      "Its process is asked, and 503 PROCESS_SILENT when that does not answer within " +
      `${RESPONSE_TIMEOUT_MS} ms. The state is what all clients see: without codes, passcodes and tokens, ` +
      "names of players, and what only some clients are shown. Messages of a chat are no state.",
    params: z.object({ roomId: z.string() }),
    response: RoomBody.extend({
      state: z.record(z.string(), z.unknown()),
      isStateTruncated: z.boolean().meta({
        description: `The state is more than ${number.format(ROOM_STATE_MAX_BYTES)} bytes of JSON`,
      }),
      sessions: z.array(SessionBody),
    }).meta({ id: "LiveRoomContent" }),
    run: (app, { params }) => roomsOf(app).inspect(params.roomId),
  }),
  route({
    ...common,
    method: "get",
    path: "/admin/processes",
    id: "listLiveProcesses",
    summary: "List the processes that hold rooms",
    description: "By id, as each describes itself. Processes that are workers alone hold none.",
    query: PageQuery,
    response: pageBody(ProcessBody),
    run: async (app, { query }) => {
      const { processes, ...total } = await roomsOf(app).processes(query);
      return pageReply(processes.map(showProcess), total, query);
    },
  }),
];

const changing = [
  route({
    ...common,
    method: "post",
    path: "/admin/rooms/{roomId}/clients/{sessionId}/disconnect",
    id: "disconnectLiveClient",
    summary: "End a client's session in a room",
    description:
      "It is told session.closed DISCONNECTED and closed with 4001, after which it may come back; ban a " +
      "player who is to stay away. The tenant's audit log has it.",
    params: z.object({ roomId: z.string(), sessionId: z.string() }),
    body: ReasonBody,
    response: z.object({
      disconnected: z.boolean().meta({ description: "false: it went by itself meanwhile" }),
    }),
    prepare: (app, { params }) => roomsOf(app).findSession(params.roomId, params.sessionId),
    run: (app, { body, prepared, params: { roomId, sessionId } }) =>
      app.transact(async (work) => {
        await auditDisconnect(work, prepared, body.reason);
        const finish = async (own: App) => ({
          disconnected: await roomsOf(own).disconnect(roomId, sessionId),
        });
        return new Reply(200, { disconnected: true }, {}, finish);
      }),
  }),
];

export const superadminRoomRoutes = [...reading, ...changing];
