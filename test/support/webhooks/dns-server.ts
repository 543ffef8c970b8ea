import { type DnsFault, type DnsServer as Started, startDns } from "../dns-server.ts";

type Family = "A" | "AAAA";
/** `count`: how often this name was asked for this family, from 1. */
type Zone = (name: string, family: Family, count: number) => readonly string[] | DnsFault;

/** `questions`: `name family`, as they were asked. */
export type DnsServer = Started & { questions: string[] };

/** A DNS server on this machine that answers as `zone` says. */
export const startDnsServer = async (zone: Zone): Promise<DnsServer> => {
  const questions: string[] = [];
  const server = await startDns((name, kind) => {
    const family: Family = kind === "AAAA" ? "AAAA" : "A";
    const asked = `${name} ${family}`;
    questions.push(asked);
    const found = zone(name, family, questions.filter((one) => one === asked).length);
    return typeof found === "string" ? found : found.map((address) => ({ address }));
  });
  return { ...server, questions };
};

/** Addresses that nothing may be sent to, by kind. */
export const NOT_PUBLIC = {
  "this network": ["0.0.0.0", "0.1.2.3"],
  loopback: ["127.0.0.1", "127.255.255.254"],
  private: ["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1"],
  "carriers' NAT": ["100.64.0.1", "100.127.255.254"],
  "metadata of clouds": ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
  "link-local": ["169.254.0.1"],
  "protocol assignments": ["192.0.0.1"],
  documentation: ["192.0.2.1", "198.51.100.1", "203.0.113.1"],
  "AS112 and AMT": ["192.31.196.1", "192.52.193.1", "192.175.48.1"],
  "6to4 relays": ["192.88.99.1"],
  benchmarks: ["198.18.0.1", "198.19.255.254"],
  multicast: ["224.0.0.1", "239.255.255.255"],
  reserved: ["240.0.0.1", "255.255.255.255"],
  "IPv6: unspecified and loopback": ["::", "::1"],
  "IPv6: IPv4 in it": [
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:10.0.0.1",
    "::7f00:1",
    "::ffff:0:7f00:1",
  ],
  "IPv6: NAT64": ["64:ff9b::7f00:1", "64:ff9b:1::a00:1"],
  "IPv6: discard": ["100::1"],
  "IPv6: protocol assignments": [
    "2001::1",
    "2001:2::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:10::1",
    "2001:20::1",
  ],
  "IPv6: documentation": ["2001:db8::1", "3fff::1"],
  "IPv6: 6to4": ["2002:7f00:1::"],
  "IPv6: AS112": ["2620:4f:8000::1"],
  "IPv6: not given out": ["4000::1", "5f00::1", "e000::1"],
  "IPv6: unique local": ["fc00::1", "fd00:ec2::254"],
  "IPv6: link-local": ["fe80::1", "fe80::1%eth0", "fec0::1"],
  "IPv6: multicast": ["ff02::1"],
  "no address": ["", "example.com", "127.1", "2130706433", "0x7f000001", "1.2.3.4.5", "::g"],
} as const;
