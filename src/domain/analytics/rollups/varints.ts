/**
 * Numbers of as many bytes as they need: seven bits a byte, the lowest first, the eighth says that more
 * follow (unsigned LEB128: DWARF Debugging Information Format, version 5, 7.6). Numbers are 0 to 2^31 - 1.
 */

/** Bytes that grow as numbers are added. */
export class VarintWriter {
  #bytes = new Uint8Array(256);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  #makeRoom(count: number): void {
    if (this.#size + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#size + count));
    larger.set(this.#bytes.subarray(0, this.#size));
    this.#bytes = larger;
  }

  add(number: number): void {
    this.#makeRoom(5);
    let rest = number;
    for (; rest > 127; rest >>>= 7) this.#bytes[this.#size++] = (rest & 127) | 128;
    this.#bytes[this.#size++] = rest;
  }

  addBytes(bytes: Uint8Array): void {
    this.#makeRoom(bytes.length);
    this.#bytes.set(bytes, this.#size);
    this.#size += bytes.length;
  }

  clear(): void {
    this.#size = 0;
  }

  /** What was added so far; valid until more is. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#size);
  }
}

/** Reads numbers one after the other. */
export class VarintReader {
  readonly #bytes: Uint8Array;
  #place: number;

  constructor(bytes: Uint8Array, place = 0) {
    this.#bytes = bytes;
    this.#place = place;
  }

  get place(): number {
    return this.#place;
  }

  get isAtEnd(): boolean {
    return this.#place >= this.#bytes.length;
  }

  next(): number {
    let number = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#bytes[this.#place++]!;
      number |= (byte & 127) << shift;
      if (byte < 128) return number;
    }
  }

  take(count: number): Uint8Array {
    this.#place += count;
    return this.#bytes.subarray(this.#place - count, this.#place);
  }
}
