// A chart: a box with round numbers at its sides, and what it shows in words below.
import type { CSSProperties, ReactNode } from "react";

import { Box, Text } from "./chakra";
import { number } from "./format";
import { type Scale, shareOf, ticks } from "./scale";

const COLOURS = { seen: "blue", fit: "orange", earlier: "gray", mark: "red" } as const;

/** How a line of that kind looks; a dash of its own tells what colour alone would not. */
export const lineOf = (kind: keyof typeof COLOURS, dash = ""): CSSProperties => ({
  fill: "none", stroke: `var(--chakra-colors-${COLOURS[kind]}-solid, currentColor)`, strokeWidth: 1.5, strokeDasharray: dash, vectorEffect: "non-scaling-stroke",
});
export const areaOf = (kind: keyof typeof COLOURS): CSSProperties => ({ fill: `var(--chakra-colors-${COLOURS[kind]}-solid, currentColor)`, fillOpacity: 0.2 });

type Axis = { scale: Scale; what: string; write?: (value: number) => string; at?: number[] };

const SIDE = "4.5rem";

export const Plot = ({ told, across, up, children }: { told: string; across: Axis; up: Axis; children: ReactNode }) => {
  const [left, below] = [up, across].map(({ scale, write = number, at }) =>
    (at ?? ticks(scale)).map((value) => ({ text: write(value), share: 100 * shareOf(scale, value) }))) as [Tick[], Tick[]];
  return (
    <Box my={2} maxW="720px">
      <Box role="img" aria-label={told} fontSize="xs" color="fg.muted">
        <Text fontSize="xs" pl={SIDE}>{up.what}{up.scale.log && " (logarithmic)"}</Text>
        <Box position="relative" height="160px" ml={SIDE} borderLeftWidth="1px" borderBottomWidth="1px" color="fg">
          {left.map((tick) => <Box key={tick.text} position="absolute" right="100%" pr={1} whiteSpace="nowrap" color="fg.muted" style={{ bottom: `calc(${tick.share}% - 0.6em)` }}>{tick.text}</Box>)}
          <svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" style={{ display: "block", overflow: "visible" }}>{children}</svg>
        </Box>
        <Box position="relative" height="1.5em" ml={SIDE} mr="2rem">
          {below.map((tick) => <Box key={tick.text} position="absolute" whiteSpace="nowrap" style={{ left: `${tick.share}%`, transform: `translateX(-${tick.share > 85 ? 70 : tick.share < 5 ? 0 : 50}%)` }}>{tick.text}</Box>)}
        </Box>
        <Text fontSize="xs" textAlign="right">{across.what}</Text>
      </Box>
      <Text fontSize="sm" color="fg.muted">{told}</Text>
    </Box>
  );
};

type Tick = { text: string; share: number };
