/**
 * Lobbies as the guide tells them, in plain JavaScript: no database, no versions, no events. Written apart
 * from the server, to hold it against.
 */
export type Rules = {
  min: number;
  max: number;
  countdown: number;
  ready: "ALL" | "MAJORITY" | "HOST";
  auto: boolean;
  late: boolean;
  spectators: boolean;
  rematch: boolean;
  closeWithHost: boolean;
  grace: number;
  gameGrace: number;
  gameMax: number;
  idle: number;
  manual: boolean;
};

export type Seat = {
  who: string;
  watches: boolean;
  ready: boolean;
  away: boolean;
  socket: boolean;
  team: boolean;
  /** When the member is away, or has left, unless something is heard; ms. */
  until: number | null;
};

const BEAT_MS = 60_000;
const LIFE_MS = 86_400_000;

/** `null` acts for the server. */
type Who = string | null;

/** One lobby. Every method that acts answers whether it was allowed. */
export class ReferenceLobby {
  readonly rules: Rules;
  state = "OPEN";
  reason: string | null = null;
  host: Who;
  seats: Seat[] = [];
  banned = new Set<string>();
  games = 0;
  /** When the game begins, began, and when somebody last changed something; ms. */
  at = { starts: 0, started: 0, changed: 0, expires: 0 };

  constructor(rules: Rules, host: string, now: number) {
    this.rules = rules;
    this.host = host;
    this.at.expires = now + LIFE_MS;
    this.#sit(host, false, now);
    this.#auto(now);
  }

  players(): Seat[] {
    return this.seats.filter((seat) => !seat.watches);
  }
  seat(who: Who): Seat | undefined {
    return this.seats.find((seat) => seat.who === who);
  }
  isOpen(): boolean {
    return this.state !== "CLOSED";
  }

  join(who: string, watches: boolean, isSeatedElsewhere: boolean, now: number): boolean {
    const mine = this.seat(who);
    if (mine) return this.#return(mine, watches, now);
    if (!this.isOpen() || this.banned.has(who)) return false;
    if (watches ? !this.rules.spectators : isSeatedElsewhere || !this.#hasRoom()) return false;
    this.#sit(who, watches, now);
    if (!watches) this.#auto(now);
    return true;
  }

  leave(who: string, final: boolean, now: number): boolean {
    const seat = this.seat(who);
    if (!seat) return false;
    if (this.state === "IN_GAME" && !seat.watches && !final) {
      if (!seat.away) this.#away(seat, now);
    } else this.#out(seat, now);
    return true;
  }

  setReady(who: string, ready: boolean, now: number): boolean {
    const seat = this.seat(who);
    if (!seat || seat.watches || !["OPEN", "STARTING"].includes(this.state)) return false;
    if (seat.ready === ready) return true;
    seat.ready = ready;
    this.at.changed = now;
    if (ready) this.#auto(now);
    else this.#recheck(now);
    return true;
  }

  choose(who: string, now: number): boolean {
    const seat = this.seat(who);
    if (!seat || seat.watches || this.state !== "OPEN" || !this.rules.manual) return false;
    seat.team = true;
    this.at.changed = now;
    this.#auto(now);
    return true;
  }

  start(by: Who, seconds: number | undefined, now: number): boolean {
    if (!this.#rules(by) || this.state !== "OPEN" || !this.#canStart()) return false;
    this.#countdown(seconds ?? this.rules.countdown, now);
    return true;
  }

  cancel(by: Who, now: number): boolean {
    if (!this.#rules(by) || this.state !== "STARTING") return false;
    [this.state, this.at.changed] = ["OPEN", now];
    return true;
  }

  kick(by: Who, who: string, ban: boolean, now: number): boolean {
    const seat = this.seat(who);
    if (!this.#rules(by) || !seat) return false;
    if (by !== null && (this.state === "IN_GAME" || by === who)) return false;
    if (ban) this.banned.add(who);
    this.#out(seat, now);
    return true;
  }

  handOver(by: Who, to: string, now: number): boolean {
    const seat = this.seat(to);
    if (!this.#rules(by) || !seat || seat.watches) return false;
    if (this.host !== to) [this.host, this.at.changed] = [to, now];
    return true;
  }

  connect(who: string, now: number): void {
    const seat = this.seat(who);
    if (!seat) return;
    Object.assign(seat, { socket: true, until: null });
    if (seat.away) this.#back(seat, null, now);
  }

  disconnect(who: string, now: number): void {
    const seat = this.seat(who);
    if (seat?.socket && !seat.away) this.#away(seat, now);
  }

  beat(who: string, now: number): boolean {
    const seat = this.seat(who);
    if (!seat) return false;
    if (seat.socket && !seat.away) return true;
    Object.assign(seat, { socket: false, until: now + BEAT_MS });
    if (seat.away) this.#back(seat, now + BEAT_MS, now);
    return true;
  }

  end(now: number): boolean {
    if (this.state !== "IN_GAME") return false;
    if (!this.rules.rematch) {
      this.#close("COMPLETED");
      return true;
    }
    this.state = "OPEN";
    this.at.changed = now;
    this.at.expires = now + LIFE_MS;
    for (const seat of this.players()) seat.ready = false;
    return true;
  }

  close(by: Who): boolean {
    if (!this.#rules(by)) return false;
    if (this.isOpen()) this.#close(by === null ? "ADMIN" : "HOST_CLOSED");
    return true;
  }

  /** What time has brought by now, as one who looks at this moment finds it. */
  tick(now: number): void {
    while (this.isOpen()) {
      const due = this.seats.filter(({ until }) => until !== null && until <= now);
      for (const seat of due) if (this.isOpen()) this.#miss(seat, now);
      if (this.state === "STARTING" && this.at.starts <= now) this.#begin(now);
      else if (due.length === 0) return this.#timeOut(now);
    }
  }

  #miss(seat: Seat, now: number): void {
    if (seat.away) this.#out(seat, now);
    else this.#away(seat, now);
  }

  #timeOut(now: number): void {
    const gameEnd = this.at.started + this.rules.gameMax * 1_000;
    if (this.state === "IN_GAME" && gameEnd <= now) this.#close("ABORTED");
    const idleEnd = Math.min(this.at.changed + this.rules.idle * 1_000, this.at.expires);
    if (this.state === "OPEN" && idleEnd <= now) this.#close("EXPIRED");
  }

  #return(mine: Seat, watches: boolean, now: number): boolean {
    if (mine.watches !== watches) return false;
    if (mine.away) {
      mine.socket = false;
      this.#back(mine, null, now);
    }
    return true;
  }

  #hasRoom(): boolean {
    const takes = this.state === "OPEN" || (this.state === "IN_GAME" && this.rules.late);
    return takes && this.players().length < this.rules.max;
  }

  #rules(by: Who): boolean {
    return by === null || by === this.host;
  }

  #sit(who: string, watches: boolean, now: number): void {
    const team = this.state === "IN_GAME";
    this.seats.push({ who, watches, ready: false, away: false, socket: false, team, until: null });
    this.at.changed = now;
  }

  #back(seat: Seat, until: number | null, now: number): void {
    Object.assign(seat, { away: false, until });
    this.at.changed = now;
  }

  #away(seat: Seat, now: number): void {
    const seconds = this.state === "IN_GAME" ? this.rules.gameGrace : this.rules.grace;
    Object.assign(seat, { away: true, until: now + seconds * 1_000 });
    this.at.changed = now;
  }

  #out(seat: Seat, now: number): void {
    this.seats = this.seats.filter((other) => other !== seat);
    this.at.changed = now;
    if (seat.watches) return;
    if (this.players().length === 0) return this.#close("EMPTY");
    if (this.host === seat.who) {
      if (this.rules.closeWithHost) return this.#close("HOST_LEFT");
      this.host = (this.players().find(({ away }) => !away) ?? this.players()[0]!).who;
    }
    this.#recheck(now);
    if (!seat.ready) this.#auto(now);
  }

  #canStart(): boolean {
    const players = this.players();
    const ready = players.filter((seat) => seat.ready).length;
    const isFull = players.length >= this.rules.max;
    const enough = {
      ALL: ready === players.length,
      MAJORITY: ready > players.length / 2 && ready >= this.rules.min,
      HOST: true,
    }[this.rules.ready];
    if (players.length < this.rules.min) return false;
    if (this.rules.manual && players.some(({ team }) => !team)) return false;
    return enough || (this.rules.auto && isFull);
  }

  #auto(now: number): void {
    if (!this.rules.auto || this.state !== "OPEN" || !this.#canStart()) return;
    const isFull = this.players().length >= this.rules.max;
    if (isFull || this.rules.ready === "ALL") this.#countdown(this.rules.countdown, now);
  }

  #countdown(seconds: number, now: number): void {
    this.state = "STARTING";
    this.at.changed = now;
    this.at.starts = now + seconds * 1_000;
    if (seconds === 0) this.#begin(now);
  }

  #begin(now: number): void {
    this.state = "IN_GAME";
    this.games++;
    this.at.started = now;
    this.at.changed = now;
  }

  #recheck(now: number): void {
    if (this.state !== "STARTING" || this.#canStart()) return;
    [this.state, this.at.changed] = ["OPEN", now];
  }

  #close(reason: string): void {
    this.state = "CLOSED";
    this.reason = reason;
    this.seats = [];
  }
}
