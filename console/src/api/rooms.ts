import type { Room } from "@colyseus/sdk";
import { useEffect, useRef, useState } from "react";
import { call, credentials } from "./client.ts";

type Watched = { status: "joining" | "live" | "lost"; why?: string };

/**
 * Joins a room as whoever is signed in, and again after it was lost; the SDK is loaded by the first that joins.
 * `onJoined` adds what listens; it is called for each new connection.
 */
export const useRoom = (
  name: string,
  options: Record<string, unknown>,
  onJoined: (room: Room) => void,
  isOn = true,
): Watched => {
  const [watched, setWatched] = useState<Watched>({ status: "joining" });
  const listen = useRef(onJoined);
  listen.current = onJoined;
  const key = JSON.stringify([name, options, credentials.project]);
  useEffect(() => {
    if (!isOn) return;
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
        listen.current(joined);
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
  }, [key, isOn]);
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
  const changed = useRef<unknown>(undefined);
  const watched = useRoom(name, options, (room) => {
    room.onStateChange((state) => (changed.current = state));
  });
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    const timer = setInterval(() => {
      if (changed.current === undefined) return;
      setShown(reader.current(changed.current));
      changed.current = undefined;
    }, RENDER_MS);
    return () => clearInterval(timer);
  }, []);
  return { ...watched, shown };
};
