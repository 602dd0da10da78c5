// Writes lines to a file, each of which it says once it is kept: a program that makes its system calls by itself.
package main

import (
	"os"
	"strconv"
)

func kept(file *os.File, line string) error {
	if _, err := file.WriteString(line); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	_, err := os.Stdout.WriteString(line)
	return err
}

func main() {
	file, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	for i := 0; i < 200 && err == nil; i++ {
		err = kept(file, "line "+strconv.Itoa(i)+"\n")
	}
	if err != nil {
		panic(err)
	}
}
