import type { Client } from "@colyseus/core";
import type { Principal } from "./authenticate.ts";

/** What the base room knows of one socket. */
export type Session = { sinceMs: number; isWarned: boolean; isClosing: boolean };

export type LiveClient = Client<{ auth: Principal; userData: Session; messages: Record<string, unknown> }>;
