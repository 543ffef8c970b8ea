import { Counter, Gauge, type Registry } from "prom-client";

/** Current numbers of rooms and sockets. */
export type RoomGauges = {
  /** Open rooms by kind. */
  rooms: Record<string, number>;
  clients: number;
  sockets: number;
  piped: number;
  waitingJoins: number;
};

const NO_ROOMS: RoomGauges = { rooms: {}, clients: 0, sockets: 0, piped: 0, waitingJoins: 0 };

/** Metrics of rooms, sockets and the processes that hold them. */
export type RoomMetrics = {
  joins: Counter<"room">;
  joinsRefused: Counter<"code" | "reason">;
  socketCloses: Counter<"code">;
  processesSwept: Counter;
  roomsRestored: Counter;
  twinsClosed: Counter;
  /** Sets how to read the gauges of rooms and sockets at a scrape. */
  watchRooms(read: () => RoomGauges): void;
};

/** Registers the metrics of rooms, sockets and the processes that hold them. */
export const realtimeMetrics = (registry: Registry): RoomMetrics => {
  const registers = [registry];
  let readRooms = () => NO_ROOMS;
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("laurel_ws_clients", "Clients in rooms", () => readRooms().clients);
  gauge("laurel_ws_sockets", "Open sockets of rooms here", () => readRooms().sockets);
  gauge("laurel_ws_piped", "Sockets piped to rooms of other processes", () => readRooms().piped);
  gauge("laurel_joins_waiting", "Joins that wait for their turn", () => readRooms().waitingJoins);
  registry.registerMetric(
    new Gauge({
      name: "laurel_rooms",
      help: "Open rooms",
      labelNames: ["room"],
      registers: [],
      collect() {
        this.reset();
        for (const [room, count] of Object.entries(readRooms().rooms)) this.set({ room }, count);
      },
    }),
  );
  const plain = (name: string, help: string) => new Counter({ name, help, registers });
  const labelled = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name, help, labelNames, registers });
  return {
    joins: labelled("laurel_joins_total", "Seats given, by kind of room", "room"),
    joinsRefused: labelled("laurel_joins_refused_total", "Seats refused", "code", "reason"),
    socketCloses: labelled("laurel_ws_closes_total", "Closed sockets by close code", "code"),
    processesSwept: plain("laurel_processes_swept_total", "Dead processes cleaned up after"),
    roomsRestored: plain("laurel_rooms_restored_total", "Rooms listed again after their listing was lost"),
    twinsClosed: plain("laurel_twins_closed_total", "Rooms closed because another process lists their id"),
    watchRooms: (read) => {
      readRooms = read;
    },
  };
};
