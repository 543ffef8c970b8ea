/** A CAA record. `tag`: what it is about, such as issue; "" where that cannot be read. */
export type CaaRecord = { isCritical: boolean; tag: string; value: string };

/** Questions to DNS servers. Every answer comes within seconds, or throws. */
export type DnsRecords = {
  /** Returns the TXT records of a name, chunks joined; or none. @throws where nobody answers */
  txt(name: string): Promise<readonly string[]>;
  /** Returns the names that a name is another one for. @throws where nobody answers */
  cname(name: string): Promise<readonly string[]>;
  /** Returns the addresses of a name, IPv4 and IPv6. @throws where nobody answers */
  addresses(name: string): Promise<readonly string[]>;
  /** Returns the CAA records of a name, or of what it is an alias of. @throws where nobody answers */
  caa(name: string): Promise<readonly CaaRecord[]>;
};
