import { setTimeout as delay } from "node:timers/promises";
import { Client as Sdk, type Room } from "@colyseus/sdk";
import type { Client } from "../http/client.ts";
import { Refused } from "../checkers/checkers.ts";

/** How long a client waits before it joins again, in ms. */
const AGAIN_MS = 250;
/** The client left, or was put out. */
const FOR_GOOD = new Set([4000, 4403]);

// oxlint-disable-next-line typescript/no-explicit-any -- the state is learnt from the handshake
export type AnyRoom = Room<any, any>;

/** Joins once with the SDK. */
export const joinOnce = async (
  api: Client,
  token: string,
  name: string,
  options: object,
): Promise<AnyRoom> => {
  const client = new Sdk(api.url);
  client.auth.token = token;
  const room = await client.joinOrCreate(name, options);
  // Else the SDK gives up a connection that is lost soon after.
  room.reconnection.minUptime = 0;
  return room;
};

/** Resolves with the first state. */
export const stateCame = (room: AnyRoom): Promise<unknown> =>
  new Promise((resolve, reject) => {
    if (room.state?.id) resolve(room.state);
    room.onStateChange.once(resolve);
    room.onLeave((code: number) => reject(new Error(`left by ${code}`)));
  });

export type StayingOptions = {
  /** Joins; a Refused ends it, with any other error it is tried again. */
  join: () => Promise<AnyRoom>;
  /** Called for each session, before its first message. */
  listen: (room: AnyRoom) => void;
};

/** A client's place in a room, as the guide has it: joined again whenever it is lost, until it is left. */
export class Staying {
  room: AnyRoom | undefined;
  /** Nothing more is tried: it was left, put out or refused. */
  isOver = false;
  /** What it went through, for who wonders where it is. */
  readonly trail: string[] = [];
  readonly #options: StayingOptions;

  constructor(options: StayingOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.room?.connection.isOpen === true;
  }

  /** Resolves when it is in, or when there is no use in trying. */
  async enter(): Promise<this> {
    while (!this.isOver) {
      try {
        this.adopt(await this.#options.join());
        break;
      } catch (error) {
        this.#note(String(error));
        if (error instanceof Refused) this.isOver = true;
        else await delay(AGAIN_MS);
      }
    }
    return this;
  }

  /** Goes on from a room that is joined already. */
  adopt(room: AnyRoom): this {
    if (this.isOver) drop(room);
    this.room = room;
    this.#options.listen(room);
    room.onMessage("*", () => undefined);
    this.#note("in");
    room.onDrop((code: number) => this.#note(`dropped by ${code}`));
    room.onReconnect(() => this.#note("back"));
    room.onLeave((code: number) => {
      this.#note(`left by ${code}`);
      this.room = undefined;
      if (FOR_GOOD.has(code)) this.isOver = true;
      else void this.enter();
    });
    return this;
  }

  #note(what: string): void {
    this.trail.push(`${Math.round(performance.now())} ${what}`);
  }

  /** Closes the socket as a network does, so that the room is joined again. */
  cut(): void {
    this.room?.connection.close();
  }

  stop(): void {
    this.isOver = true;
    if (this.room) drop(this.room);
  }
}

/** Ends a connection without a word: a word might be a leave. */
export const drop = (room: AnyRoom): void => {
  room.reconnection.enabled = false;
  room.connection.close();
};
