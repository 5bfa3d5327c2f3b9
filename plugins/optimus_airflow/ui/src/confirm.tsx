// What changes something asks once before it does.
import { useState } from "react";

import { Button, HStack, Text } from "./chakra";

export type Act = { label: string; ask: string; yes: string; act: () => void; danger?: boolean };

/** Buttons that each ask once. "No" and Escape take the focus back to the button that asked. */
export const Confirmed = ({ acts }: { acts: Act[] }) => {
  const [asked, setAsked] = useState<Act | null>(null);
  const [refused, setRefused] = useState("");
  const refuse = ({ label }: Act) => {
    setAsked(null);
    setRefused(label);
  };
  if (asked === null)
    return acts.map((each) => (
      <Button key={each.label} size="sm" variant="outline" autoFocus={each.label === refused} {...(each.danger ? { colorPalette: "red" } : {})} onClick={() => setAsked(each)}>{each.label}</Button>
    ));
  return (
    <HStack role="alertdialog" aria-label="Confirm" wrap="wrap" onKeyDown={(e: { key: string }) => e.key === "Escape" && refuse(asked)}>
      <Text>{asked.ask}</Text>
      <Button size="sm" autoFocus colorPalette="red" onClick={() => { setAsked(null); asked.act(); }}>{asked.yes}</Button>
      <Button size="sm" variant="outline" onClick={() => refuse(asked)}>No</Button>
    </HStack>
  );
};
