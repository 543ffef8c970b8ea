import type { Room } from "@colyseus/sdk";
import { useEffect, useRef, useState } from "react";
import { call, credentials } from "./client.ts";

type Watched = { status: "joining" | "live" | "lost"; why?: string };

/**
 * Joins a room as whoever is signed in, and again after it was lost; the SDK is loaded by the first that joins.
 * `onJoined` adds what listens; it is called for each new connection, as it was when the room was asked for.
 */
export const useRoom = (
  name: string,
  options: Record<string, unknown>,
  onJoined: (room: Room) => void,
): Watched => {
  const [watched, setWatched] = useState<Watched>({ status: "joining" });
  const key = JSON.stringify([name, options, credentials.project]);
  useEffect(() => {
    let isOver = false;
    let room: Room | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let waitsMs = 1_000;
    const again = (why?: string) => {
      if (isOver) return;
      setWatched(why === undefined ? { status: "lost" } : { status: "lost", why });
      timer = setTimeout(() => void join(), waitsMs);
      waitsMs = Math.min(30_000, waitsMs * 2);
    };
    const join = async () => {
      try {
        const [{ Client }, ticket] = await Promise.all([
          import("@colyseus/sdk"),
          call("createWsToken", { body: {} as never }),
        ]);
        const client = new Client(location.origin);
        client.auth.token = (ticket as { token: string }).token;
        const joined = await client.joinOrCreate(name, options);
        if (isOver) return void joined.leave();
        room = joined;
        waitsMs = 1_000;
        setWatched({ status: "live" });
        onJoined(joined);
        joined.onDrop(() => setWatched({ status: "lost" }));
        joined.onReconnect(() => setWatched({ status: "live" }));
        joined.onLeave(() => again());
      } catch (error) {
        again(error instanceof Error ? error.message : String(error));
      }
    };
    void join();
    return () => {
      isOver = true;
      clearTimeout(timer);
      room?.removeAllListeners();
      void room?.leave();
    };
  }, [key]);
  return watched;
};

/** A room that changes a hundred times a second is drawn this often: more renders cost more than a reader sees. */
export const RENDER_MS = 250;

/** What a room shows, read from its state anew whenever that has changed. */
export const useMirror = <T>(
  name: string,
  options: Record<string, unknown>,
  read: (state: any) => T,
): Watched & { shown: T | undefined } => {
  const [shown, setShown] = useState<T>();
  const isWaiting = useRef(false);
  const watched = useRoom(name, options, (room) => {
    room.onStateChange((state) => {
      if (isWaiting.current) return;
      isWaiting.current = true;
      setTimeout(() => {
        isWaiting.current = false;
        setShown(read(state));
      }, RENDER_MS);
    });
  });
  return { ...watched, shown };
};
